"""Every option, once, and the configurations that set them.

May import ``errors`` only.

>>> from funken import config
>>> config.Configuration().set(config.BUFFER_TIMEOUT, "5 ms").get(config.BUFFER_TIMEOUT)
5
"""

from funken.config.configuration import *
from funken.config.observing import *
from funken.config.options import *
from funken.config.values import *
