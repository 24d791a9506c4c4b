//go:build !race

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLimitsOfAFolderThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := bound(ctx, program(ctx, t, nil, "bench", "limits", "--dir", dir))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitFailure {
		t.Fatalf("%v: %s", err, &said)
	}
	if !strings.Contains(said.String(), dir) || !strings.Contains(said.String(), "permission denied") {
		t.Errorf("it says %q", &said)
	}
}

// Small file systems can be made by root only; elsewhere the tests are skipped.
func TestLimitsOfADiskThatIsFullOrReadOnly(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	for name, c := range map[string]struct {
		options, says string
		only          []string
	}{
		"full soon": {"size=24m", "no space left on device", []string{"group-commit/pebble/256", "group-commit/pebble/16", "group-commit/bolt/256", "lives/pebble"}},
		"full":      {"size=1m", "no space left on device", []string{"fsync/overwrite", "group-commit/pebble/16", "group-commit/bolt", "lives/bolt", "lives/pebble"}},
		"read-only": {"ro", "read-only file system", []string{"fsync"}},
	} {
		disk := t.TempDir()
		mount(t, "-t", "tmpfs", "-o", c.options, "tmpfs", disk)
		t.Cleanup(func() { exec.Command("umount", "-l", disk).Run() })
		for _, only := range c.only {
			t.Run(name+"/"+only, func(t *testing.T) {
				// A slow machine takes longer than the default budget to fill the disk. A full disk ends the measurement.
				got := cli(t, nil, "", "bench", "limits", "--dir", disk, "--only", only, "--budget", limit.String())
				if got.code != exitFailure || !strings.Contains(got.stderr, c.says) || strings.Contains(got.stderr, "goroutine") {
					t.Errorf("exit %d, %q", got.code, got.stderr)
				}
				left(t, disk)
			})
		}
	}
}

func TestLimitsLeaveNothingBehindWhenInterrupted(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			cmd := program(ctx, t, nil, "bench", "limits", "--dir", dir, "--budget", "1h", "--only", "fsync/append")
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for found := []os.DirEntry(nil); len(found) == 0 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
				found, _ = os.ReadDir(dir) // once there is something, it measures
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitSignal+int(s) || !strings.Contains(said.String(), "signal") {
				t.Errorf("%v: %q", err, &said)
			}
			left(t, dir)
		})
	}
}

// left reports the files in a folder.
func left(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left behind", e.Name())
	}
}
