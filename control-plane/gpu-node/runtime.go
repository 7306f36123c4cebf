package main

import (
	"bytes"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Where the driver's libraries appear in a container.
const inContainer = "/usr/lib/x86_64-linux-gnu"

// runContainer does what runc does; a container that was told of devices finds the driver's libraries, too.
func runContainer(runc, libraries string, arguments []string) {
	if bundle := bundleOf(arguments); bundle != "" {
		if err := completeBundle(filepath.Join(bundle, "config.json"), libraries); err != nil {
			log.Fatal(err)
		}
	}
	err := syscall.Exec(runc, append([]string{runc}, arguments...), os.Environ())
	log.Fatal(err)
}

// bundleOf is the folder of the container that these arguments create, if they do.
func bundleOf(arguments []string) string {
	if !slices.Contains(arguments, "create") {
		return ""
	}
	at := slices.Index(arguments, "--bundle")
	if at < 0 || at+1 >= len(arguments) {
		return ""
	}
	return arguments[at+1]
}

func completeBundle(file, libraries string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // limits are larger than a float holds exactly
	if err := decoder.Decode(&config); err != nil {
		return err
	}
	process, _ := config["process"].(map[string]any)
	variables, _ := process["env"].([]any)
	if !seesDevices(variables) {
		return nil
	}
	mounts, _ := config["mounts"].([]any)
	files, err := os.ReadDir(libraries)
	if err != nil {
		return err
	}
	for _, library := range files {
		mounts = append(mounts, map[string]any{
			"destination": filepath.Join(inContainer, library.Name()),
			"source":      filepath.Join(libraries, library.Name()),
			"type":        "bind",
			"options":     []string{"ro", "bind"},
		})
	}
	config["mounts"] = mounts
	// How the driver fails, if it does.
	if fault, err := os.ReadFile(libraries + ".fault"); err == nil {
		process["env"] = append(variables, "STUB_NVML_FAULT="+strings.TrimSpace(string(fault)))
	}
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func seesDevices(variables []any) bool {
	for _, variable := range variables {
		text, _ := variable.(string)
		if devices, found := strings.CutPrefix(text, "NVIDIA_VISIBLE_DEVICES="); found {
			return devices != "" && devices != "void" && devices != "none"
		}
	}
	return false
}
