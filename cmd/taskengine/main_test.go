package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A schedule names its time zone, and a small container has no database of them. The test asks for
// the packages of the program, because a process cannot hide the database of its system.
func TestTheProgramHasTheTimeZones(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if !slices.Contains(strings.Fields(string(out)), "time/tzdata") {
		t.Error("the program does not import time/tzdata")
	}
}
