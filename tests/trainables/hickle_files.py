"""Writes what each version of hickle writes for an array and for a list of texts, with h5py alone.

Layouts: hickle 1.3 (``dump_ndarray``, ``dump_list``), 2 and 3 (``create_np_array_dataset``,
``create_listlike_dataset``) as in the legacy modules of telegraphic/hickle, and 5 as found in files that hickle 5.0.3
wrote.
"""

import h5py
import numpy as np


def write_1(file, value):
    with h5py.File(file, "w") as out:
        data = value if isinstance(value, np.ndarray) else [text.encode() for text in value]
        out.create_dataset("data", data=data)
        out.create_dataset("type", data=[b"ndarray" if isinstance(value, np.ndarray) else b"list"])


def write_3(file, value):
    with h5py.File(file, "w") as out:
        out.attrs["CLASS"], out.attrs["VERSION"], out.attrs["type"] = b"hickle", "3.4.9", [b"hickle"]
        if isinstance(value, np.ndarray):
            out.create_dataset("data_0", data=value).attrs["type"] = [b"ndarray"]
        else:
            data = out.create_dataset("data_0", data=list(value), dtype=h5py.string_dtype())
            data.attrs["type"] = [b"<class 'list'>"]


def write_5(file, value):
    with h5py.File(file, "w") as out:
        out.attrs["HICKLE_VERSION"], out.attrs["HICKLE_PYTHON_VERSION"] = "5.0.3", "3.11.7"
        if isinstance(value, np.ndarray):
            out.create_dataset("data", data=value).attrs["np_dtype"] = value.dtype.str
            return
        group, first = out.create_group("data"), {}
        group.attrs["num_items"] = len(value)
        for number, text in enumerate(value):
            if text in first:
                item = group.create_dataset(f"data{number}", data=first[text].ref, dtype=h5py.ref_dtype)
            else:
                letters = np.frombuffer(text.encode(), dtype="S1").reshape(1, -1)
                item = first[text] = group.create_dataset(f"data{number}", data=letters)
                item.attrs["str_type"] = "str"
            item.attrs["item_index"] = number


WRITERS = {"hickle 1": write_1, "hickle 3": write_3, "hickle 5": write_5}
