// Package nightly has a schedule that makes a report every night.
package nightly

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestTheScriptWritesAReport(t *testing.T) {
	script, err := os.ReadFile("report.sh")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cmd := exec.Command("sh", "-c", string(script))
	cmd.Dir, cmd.Stdin = folder, strings.NewReader(`{"day":"2026-05-02"}`)
	out, err := cmd.Output()
	if err != nil || string(out) != "\"reports/2026-05-02.txt\"\n" {
		t.Fatalf("the script writes %q, %v", out, err)
	}
	if report, err := os.ReadFile(folder + "/reports/2026-05-02.txt"); err != nil || !strings.HasPrefix(string(report), "the report of 2026-05-02") {
		t.Errorf("the report is %q, %v", report, err)
	}
}
