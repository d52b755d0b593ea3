"""Files as a source and as an exactly-once sink: splits, lines, buckets, part files. The formats of files are exported here.

May import ``connectors``, ``io``, ``types``, ``timing`` and what is below.
"""

from funken.connectors.files.arrow_files import OrcFormat, ParquetFormat
from funken.connectors.files.avro_files import AvroFormat
from funken.connectors.files.csv_files import CsvReaderFormat, infer_csv
from funken.connectors.files.file_format import BulkFormat, FileFormat
from funken.connectors.files.line_files import CompressedRows, LineEncoder, LineFormat
from funken.connectors.formats.csv_schema import HeaderNames

__all__ = [
    "AvroFormat",
    "BulkFormat",
    "CompressedRows",
    "CsvReaderFormat",
    "FileFormat",
    "HeaderNames",
    "LineEncoder",
    "LineFormat",
    "OrcFormat",
    "ParquetFormat",
    "infer_csv",
]
