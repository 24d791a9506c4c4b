package service

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mostExposure is the most that systemd-analyze may say about the unit, in tenths of its scale from 0 (safe) to 10.
const mostExposure = "30"

// unitFile writes the unit of a program that exists.
func unitFile(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), unitName)
	if err := os.WriteFile(path, []byte(unit(program)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheUnitIsHardened(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=yes", "--threshold="+mostExposure, unitFile(t)).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze (scripts/need systemd installs it): %v\n%s", err, out)
	}
}

func TestSystemdKnowsEachLineOfTheUnit(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unitFile(t)).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, unitName) && !strings.Contains(line, "notify-reload") { // which is new in systemd 253
			t.Error(line)
		}
	}
}
