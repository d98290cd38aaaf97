// Prints the cards that go-nvml and go-nvlib see, as JSON, and finds each of them by its uuid and PCI address.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

type instance struct {
	UUID    string `json:"uuid"`
	Profile string `json:"profile"`
	Memory  uint64 `json:"memory"`
}

type card struct {
	UUID     string     `json:"uuid"`
	Name     string     `json:"name"`
	Total    uint64     `json:"total"`
	Used     uint64     `json:"used"`
	MIG      bool       `json:"mig"`
	Profiles []string   `json:"profiles"`
	Devices  []instance `json:"devices"`
}

func must(what string, ret nvml.Return) {
	if ret != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, nvml.ErrorString(ret))
		os.Exit(1)
	}
}

func check(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func describe(library nvml.Interface, each device.Device) card {
	var out card
	var ret nvml.Return
	out.UUID, ret = each.GetUUID()
	must("GetUUID", ret)
	out.Name, ret = each.GetName()
	must("GetName", ret)
	memory, ret := each.GetMemoryInfo()
	must("GetMemoryInfo", ret)
	out.Total, out.Used = memory.Total, memory.Used
	pci, ret := each.GetPciInfo()
	must("GetPciInfo", ret)
	address := ""
	for _, c := range pci.BusId {
		if c != 0 {
			address += string(rune(c))
		}
	}
	for what, find := range map[string]func() (nvml.Device, nvml.Return){
		"by uuid":        func() (nvml.Device, nvml.Return) { return library.DeviceGetHandleByUUID(out.UUID) },
		"by PCI address": func() (nvml.Device, nvml.Return) { return library.DeviceGetHandleByPciBusId(address) },
	} {
		found, ret := find()
		must(what, ret)
		uuid, ret := found.GetUUID()
		must("GetUUID "+what, ret)
		if uuid != out.UUID {
			check(what, fmt.Errorf("found %s instead of %s", uuid, out.UUID))
		}
	}
	enabled, err := each.IsMigEnabled()
	check("IsMigEnabled", err)
	out.MIG = enabled
	if !enabled {
		return out
	}
	profiles, err := each.GetMigProfiles()
	check("GetMigProfiles", err)
	for _, profile := range profiles {
		out.Profiles = append(out.Profiles, profile.String())
	}
	devices, err := each.GetMigDevices()
	check("GetMigDevices", err)
	for _, mig := range devices {
		uuid, ret := mig.GetUUID()
		must("GetUUID of a MIG device", ret)
		profile, err := mig.GetProfile()
		check("GetProfile", err)
		memory, ret := mig.GetMemoryInfo()
		must("GetMemoryInfo of a MIG device", ret)
		out.Devices = append(out.Devices, instance{uuid, profile.String(), memory.Total})
	}
	return out
}

func main() {
	library := nvml.New()
	must("Init", library.Init())
	devices, err := device.New(library).GetDevices()
	check("GetDevices", err)
	cards := []card{}
	for _, each := range devices {
		cards = append(cards, describe(library, each))
	}
	must("Shutdown", library.Shutdown())
	check("encode", json.NewEncoder(os.Stdout).Encode(cards))
}
