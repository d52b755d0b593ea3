"""Every option, once, and the configurations that set them.

May import ``errors`` only.

>>> from funken import config
>>> config.Configuration().set(config.BUFFER_TIMEOUT, "5 ms").get(config.BUFFER_TIMEOUT)
5
"""

from funken.config.availability import *
from funken.config.configuration import *
from funken.config.connectors import *
from funken.config.execution import *
from funken.config.logs import *
from funken.config.observing import *
from funken.config.options import *
from funken.config.rest import *
from funken.config.restarting import *
from funken.config.scaling import *
from funken.config.values import *
