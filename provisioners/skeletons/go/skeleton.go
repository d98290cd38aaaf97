// A provisioner in Go to start from: gives a container its card and a greeting, whose text the class may set. The
// standard library only; glue.c holds the table and the entry symbol.
//
//	CGO_CFLAGS="-I$EGPU" go build -buildmode=c-shared -o libskeleton.so .
package main

// #include "glue.h"
import "C"

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"unsafe"
)

// What was provisioned: key to content.
var (
	mutex   sync.Mutex
	records = map[string]string{}
)

// No panic may leave a slot.
func guard(call *C.egpu_call, code *C.int) {
	if r := recover(); r != nil {
		*code = refuse(call, C.EGPU_INTERNAL, fmt.Sprint(r))
	}
}

func refuse(call *C.egpu_call, code C.int, why string) C.int {
	text := C.CString(why)
	defer C.free(unsafe.Pointer(text))
	C.skeletonMessage(call, text)
	return code
}

func pairs(parameters *C.egpu_pair, count C.size_t) map[string]string {
	out := map[string]string{}
	if count == 0 {
		return out
	}
	for _, p := range unsafe.Slice(parameters, int(count)) {
		out[C.GoString(p.key)] = C.GoString(p.value)
	}
	return out
}

func cards(device *C.egpu_device) []*C.egpu_card {
	if device.card_count == 0 {
		return nil
	}
	return unsafe.Slice((**C.egpu_card)(unsafe.Pointer(device.cards)), int(device.card_count))
}

// incomplete says why the call cannot be served, or nothing.
func incomplete(call *C.egpu_call, device *C.egpu_device) string {
	if C.GoString(call.key) == "" {
		return "the call has no key"
	}
	if device == nil {
		return ""
	}
	if device.card_count == 0 {
		return "the device has no cards"
	}
	for _, card := range cards(device) {
		if C.GoString(card.uuid) == "" {
			return "a card has no uuid"
		}
	}
	return ""
}

// content is all that makes two devices the same; the claim is no part of it.
func content(device *C.egpu_device) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%q %q", C.GoString(device.device), C.GoString(device.node))
	for _, card := range cards(device) {
		fmt.Fprintf(&out, " %q %d %d", C.GoString(card.uuid), card.core, card.memory)
	}
	parameters := pairs(device.parameters, device.parameter_count)
	names := make([]string, 0, len(parameters))
	for name := range parameters {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&out, " %q=%q", name, parameters[name])
	}
	return out.String()
}

//export goValidate
func goValidate(call *C.egpu_call, parameters *C.egpu_pair, count C.size_t) (code C.int) {
	defer guard(call, &code)
	for name := range pairs(parameters, count) {
		if name != "greeting" {
			return refuse(call, C.EGPU_INVALID, fmt.Sprintf("unknown parameter %q; this provisioner knows greeting", name))
		}
	}
	return C.EGPU_OK
}

// On the controller's side, keyed by the device's uid.
//
//export goProvision
func goProvision(call *C.egpu_call, device *C.egpu_device) (code C.int) {
	defer guard(call, &code)
	if why := incomplete(call, device); why != "" {
		return refuse(call, C.EGPU_INVALID, why)
	}
	key, wanted := C.GoString(call.key), content(device)
	mutex.Lock()
	defer mutex.Unlock()
	known, there := records[key]
	if there && known == wanted {
		return C.EGPU_NO_CHANGE
	}
	if there {
		return refuse(call, C.EGPU_EXISTS, "key "+key+" is in use with other content")
	}
	records[key] = wanted
	return C.EGPU_OK
}

//export goDeprovision
func goDeprovision(call *C.egpu_call) (code C.int) {
	defer guard(call, &code)
	if why := incomplete(call, nil); why != "" {
		return refuse(call, C.EGPU_INVALID, why)
	}
	mutex.Lock()
	defer mutex.Unlock()
	delete(records, C.GoString(call.key))
	return C.EGPU_OK
}

//export goList
func goList(call *C.egpu_call) (code C.int) {
	defer guard(call, &code)
	mutex.Lock()
	defer mutex.Unlock()
	for key := range records {
		text := C.CString(key)
		C.skeletonKey(call, text)
		C.free(unsafe.Pointer(text))
	}
	return C.EGPU_OK
}

// On the node: what the container gets. Must depend on its arguments alone.
//
//export goMount
func goMount(call *C.egpu_call, device *C.egpu_device) (code C.int) {
	defer guard(call, &code)
	if why := incomplete(call, device); why != "" {
		return refuse(call, C.EGPU_INVALID, why)
	}
	with := func(text string, reply func(*C.char)) {
		c := C.CString(text)
		defer C.free(unsafe.Pointer(c))
		reply(c)
	}
	greeting, set := pairs(device.parameters, device.parameter_count)["greeting"]
	if !set {
		greeting = "hello"
	}
	with("GREETING", func(name *C.char) {
		with(greeting, func(value *C.char) { C.skeletonEnv(call, name, value) })
	})
	for _, card := range cards(device) {
		with(fmt.Sprintf("/dev/nvidia%d", card.index), func(path *C.char) { C.skeletonDeviceNode(call, path) })
		with("nvidia.com/gpu="+C.GoString(card.uuid), func(name *C.char) { C.skeletonCdiDevice(call, name) })
	}
	return C.EGPU_OK
}

func main() {}
