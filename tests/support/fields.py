"""A function of records that reads another field once a variable of its module has changed."""

FIELD = "i"


def field(record):
    return record[FIELD]


def changing(value):
    """Hand a value on; 20 changes the field."""
    if value == 20:
        globals()["FIELD"] = "j"
    return value
