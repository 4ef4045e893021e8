"""The errors a user can meet. Each says what was wrong, where, and what to do; the command line prints it as it is."""


class TicketsError(Exception):
    """Base of every error this package raises on purpose; the command line ends with `exit_code`."""

    exit_code = 2


class ConfigError(TicketsError):
    """The YAML file, an override or a warm-start point does not fit the schema."""


class DataError(TicketsError):
    """A task's rows cannot be used: missing file, unknown label, one class, empty text."""


class ResourceError(TicketsError):
    """Something that has to be installed or fetched is not there."""


class Unreachable(ResourceError):
    """What was asked for lies on the hub, if anywhere, and the hub cannot be reached from here."""


class StoreError(TicketsError):
    """The stage store cannot be read or written, or a blob does not match its digest."""


class SearchStopped(TicketsError):
    """The search ended before its trials were done: too many failures in a row, or the disk is full."""

    exit_code = 1
