package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// extras are the files beside the program that the program itself writes. They are the same for each platform.
type extras struct {
	manual      []file            // pages, such as taskengine-run.1
	completions map[string][]byte // scripts by the name of the shell
}

// shells are the shells with scripts in archives and packages.
var shells = []string{"bash", "zsh", "fish"}

// extrasOf has the program of this machine's platform write its manual and its completions.
func extrasOf(source, cache string) (*extras, error) {
	self := platform{runtime.GOOS, runtime.GOARCH}
	built := self.builtIn(source)
	if err := build(source, built, cache, self); err != nil {
		return nil, err
	}
	folder := filepath.Join(source, "bin", "man1")
	if _, err := say(built, "man", folder); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	x := &extras{completions: make(map[string][]byte)}
	for _, e := range entries {
		page, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		x.manual = append(x.manual, file{name: e.Name(), mode: 0o644, content: page})
	}
	for _, shell := range shells {
		if x.completions[shell], err = say(built, "completion", shell); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// say returns the output of the program without an environment, whose variables would be in the manual as defaults.
func say(built string, args ...string) ([]byte, error) {
	cmd := exec.Command(built, args...)
	cmd.Env = []string{"LC_ALL=C"}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w", program, args, err)
	}
	return out, nil
}

// inArchive returns the files as they are in an archive.
func (x *extras) inArchive() (all []file) {
	for _, page := range x.manual {
		page.name = "man/man1/" + page.name
		all = append(all, page)
	}
	for _, shell := range shells {
		all = append(all, file{name: "completions/" + completionName(shell), mode: 0o644, content: x.completions[shell]})
	}
	return all
}

// completionName is the name by which a shell finds the script for the program.
func completionName(shell string) string {
	switch shell {
	case "zsh":
		return "_" + program
	case "fish":
		return program + ".fish"
	}
	return program
}
