// gpu-node plays NVIDIA's two programs on a node of a test, for GPUs that do not exist:
//
//	gpu-node plugin FOLDER PREFIX GPUS REPLICAS      the device plugin
//	gpu-node runtime RUNC LIBRARIES ARGUMENTS...     the container runtime
//
// Both know what the real ones know and no more: the plugin hands out ids and tells a container its devices by a variable;
// the runtime reads that variable and mounts the driver's libraries.
package main

import (
	"log"
	"os"
	"strconv"
)

func main() {
	switch arguments := os.Args[1:]; {
	case len(arguments) == 5 && arguments[0] == "plugin":
		gpus, replicas := number(arguments[3]), number(arguments[4])
		servePlugin(arguments[1], devices(arguments[2], gpus, replicas))
	case len(arguments) > 3 && arguments[0] == "runtime":
		runContainer(arguments[1], arguments[2], arguments[3:])
	default:
		log.Fatal("usage: gpu-node plugin FOLDER PREFIX GPUS REPLICAS | gpu-node runtime RUNC LIBRARIES ARGUMENTS...")
	}
}

func number(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		log.Fatalf("%q is not a number", text)
	}
	return number
}
