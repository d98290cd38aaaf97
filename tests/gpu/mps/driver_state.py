"""State of the fake driver: the file driver.json in the root folder of the driver, which tests read and write."""
import fcntl
import json
import os
import sys


def root():
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0]))))


def read():
    try:
        with open(os.path.join(root(), "driver.json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def change(function):
    """Calls function(state) with the file locked and replaces the file. Returns the function's result."""
    path = os.path.join(root(), "driver.json")
    with open(path + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = read()
        result = function(state)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(state, file)
        os.replace(path + ".new", path)
        return result
