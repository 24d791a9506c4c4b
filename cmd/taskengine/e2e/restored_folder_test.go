//go:build !race

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An older copy of the directory is put in its place, once while the node is stopped, and once under the node: then it stops,
// or nothing is lost that it has accepted.
func TestTheDirectoryOfANodeIsReplacedByAnOlderCopy(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			data, older, g := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "older"), newGate(t)
			file := settingsFor(t, fmt.Sprintf("{driver: %s, path: %q}", driver, data), g)
			n := start(t, nil, "run", "-c", file)
			kill := func() {
				t.Helper()
				n.signal(t, syscall.SIGKILL)
				<-n.ended
			}
			held := n.ok(t, "task", "add", "hold")
			n.until(t, held, "processing")
			again := n.ok(t, "task", "add", "copy", "--data", "1", "--in", "2s")
			kill()
			if err := os.CopyFS(older, os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
			n = start(t, nil, "run", "-c", file)
			n.until(t, again, "done")
			lost := n.ok(t, "task", "add", "copy")
			n.until(t, lost, "done")
			kill()
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(data, os.DirFS(older)); err != nil {
				t.Fatal(err)
			}
			n = start(t, nil, "run", "-c", file)
			n.until(t, again, "done")
			if r := n.cli(t, "task", "get", lost); r.code != exitNotFound {
				t.Errorf("a task of the time that was lost: %+v", r)
			}
			g.open(t)
			n.until(t, held, "done")

			writeOver(t, older, data)
			if r := n.cli(t, "task", "add", "copy"); r.code == exitOK { // no file was overwritten that is in use
				kill()
				n = start(t, nil, "run", "-c", file)
				n.until(t, strings.TrimSpace(r.stdout), "done")
				return
			}
			if code := n.exit(t); code != exitFailure {
				t.Errorf("the node ended with %d:\n%s", code, n.log)
			}
		})
	}
}

// writeOver writes the files of a folder into the files of another one, as cp does.
func writeOver(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
