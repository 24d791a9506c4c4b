//go:build !race

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestAFolderThatCannotBeWrittenIsReportedBeforeTheStart takes root's licence to write
// everywhere from the node, where it has it.
func TestAFolderThatCannotBeWrittenIsReportedBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt"} {
		t.Run(driver, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "tasks")
			if err := os.Mkdir(folder, 0o555); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "taskengine.yaml")
			if err := os.WriteFile(file, []byte("storage: {driver: "+driver+", path: "+folder+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			node := bound(ctx, program(ctx, t, nil, "run", "-c", file, "--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"))
			var said bytes.Buffer
			node.Stderr = &said
			if err := node.Run(); node.ProcessState == nil || node.ProcessState.ExitCode() != exitFailure {
				t.Fatalf("%v: %s", err, &said)
			}
			if !strings.Contains(said.String(), "permission denied") || !strings.Contains(said.String(), folder) {
				t.Errorf("it says %q", &said)
			}
		})
	}
}

// TestAFullDiskStopsTheNodeAndLosesNothing fills a small file system, which only root
// can make; elsewhere the stores' own tests fail the disk.
func TestAFullDiskStopsTheNodeAndLosesNothing(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	for _, driver := range []string{"pebble", "bolt"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			disk := t.TempDir()
			mount(t, "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk)
			t.Cleanup(func() { exec.Command("umount", "-l", disk).Run() })
			file := filepath.Join(t.TempDir(), "taskengine.yaml")
			text := "storage: {driver: " + driver + ", path: " + disk + "/data}\nhandlers: {x: {exec: [\"true\"]}}\ntypes: {x: {paused: true}}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			n := start(t, nil, "run", "-c", file)
			payload := strconv.Quote(strings.Repeat("a large payload ", 30_000))
			accepted := 0
			for ; accepted < 100; accepted++ {
				if got := cli(t, nil, payload, "--address", n.api, "task", "add", "x", "--data", "-"); got.code != 0 {
					break
				}
			}
			<-n.ended
			if n.cmd.ProcessState.ExitCode() != exitFailure || !strings.Contains(n.log.String(), "no space left on device") {
				t.Fatalf("after %d tasks the node ended with %v: %s", accepted, n.cmd.ProcessState, n.log)
			}
			if loud := linesAbove(n.log.String(), "INFO"); len(loud) > 10 || !strings.Contains(strings.Join(loud, ""), "the disk is full") {
				t.Errorf("it logs %d warnings and errors:\n%.5000s", len(loud), strings.Join(loud, ""))
			}
			mount(t, "-o", "remount,size=200m", disk)
			n = start(t, nil, "run", "-c", file)
			got := cli(t, nil, "", "--address", n.api, "task", "count", "-o", "json")
			if accepted < 5 || !strings.Contains(got.stdout, strconv.Itoa(accepted)) {
				t.Errorf("%d tasks were accepted; now there are: %s%s", accepted, got.stdout, got.stderr)
			}
		})
	}
}

// linesAbove returns the lines of a log of more than this level.
func linesAbove(log, level string) (loud []string) {
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "{") && !strings.Contains(line, `"level":"`+level+`"`) {
			loud = append(loud, line)
		}
	}
	return loud
}

func mount(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small file system here: %v: %s", err, out)
	}
}
