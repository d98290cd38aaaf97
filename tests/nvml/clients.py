"""Prints the cards that third-party NVML clients see, as JSON.  clients.py nvml | nvitop

Each card: uuid, name, memory total and used in bytes, pids of its processes and their memory; nvml: its MIG devices."""
import json
import sys


def mig_devices(n, card):
    """MIG devices of a card: uuid, ids of the instances, and the card that they belong to."""
    out = []
    for i in range(n.nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            mig = n.nvmlDeviceGetMigDeviceHandleByIndex(card, i)
        except (n.NVMLError_NotFound, n.NVMLError_NotSupported):
            continue
        out.append({"uuid": n.nvmlDeviceGetUUID(mig), "gpuInstance": n.nvmlDeviceGetGpuInstanceId(mig),
                    "computeInstance": n.nvmlDeviceGetComputeInstanceId(mig),
                    "card": n.nvmlDeviceGetUUID(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig))})
    return out


def nvml():
    import pynvml as n

    n.nvmlInit()
    cards = []
    for i in range(n.nvmlDeviceGetCount()):
        card = n.nvmlDeviceGetHandleByIndex(i)
        memory = n.nvmlDeviceGetMemoryInfo(card, version=n.nvmlMemory_v2)
        processes = n.nvmlDeviceGetComputeRunningProcesses(card)
        graphics = n.nvmlDeviceGetGraphicsRunningProcesses(card)
        cards.append({"uuid": n.nvmlDeviceGetUUID(card), "name": n.nvmlDeviceGetName(card), "total": memory.total,
                      "reserved": memory.reserved, "used": memory.used, "minor": n.nvmlDeviceGetMinorNumber(card),
                      "persistence": n.nvmlDeviceGetPersistenceMode(card), "mig": mig_devices(n, card),
                      "processes": {str(p.pid): p.usedGpuMemory for p in processes},
                      "graphics": {str(p.pid): p.usedGpuMemory for p in graphics}})
    try:
        n.nvmlDeviceGetHandleByIndex(len(cards))
        raise SystemExit("a card beyond the last one was given")
    except n.NVMLError_InvalidArgument:
        pass
    driver = n.nvmlSystemGetDriverVersion()
    n.nvmlShutdown()
    return {"driver": driver, "cards": cards}


def nvitop():
    from nvitop import Device

    return {"driver": Device.driver_version(), "cards": [
        {"uuid": d.uuid(), "name": d.name(), "total": d.memory_total(), "used": d.memory_used(), "minor": d.minor_number(),
         "persistence": 1 if d.persistence_mode() == "Enabled" else 0,
         "processes": {str(pid): p.gpu_memory() for pid, p in d.processes().items()}} for d in Device.all()]}


print(json.dumps({"nvml": nvml, "nvitop": nvitop}[sys.argv[1]]()))
