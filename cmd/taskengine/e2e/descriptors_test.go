//go:build !race

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestConnectionsDoNotTakeTheDescriptorsOfTheStore opens more connections than a node has file
// descriptors: it says so once, goes on, and answers when they end.
func TestConnectionsDoNotTakeTheDescriptorsOfTheStore(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no ulimit")
	}
	for _, driver := range []string{"pebble", "bolt"} {
		t.Run(driver, func(t *testing.T) {
			file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: %s, path: %q}\nnode: {slots: 2}\nhandlers: {copy: {exec: [/bin/cat]}}\ntypes: {copy: {}}\n",
				driver, filepath.Join(t.TempDir(), "data")))
			n := startWith(t, "ulimit -n 160", "run", "-c", file)
			n.says(t, "few files may be open at once")
			var open []net.Conn
			for range 300 {
				c, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.api)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, c)
			}
			n.says(t, "no more connections are accepted")
			if code, body := n.readiness(t); code != http.StatusOK {
				t.Errorf("while there are too many connections it is not ready: %d %s", code, body)
			}
			for _, c := range open {
				c.Close()
			}
			n.objects(t, "task", "add", "copy", "--data", "1", "--wait")
			if log := n.log.String(); strings.Count(log, "no more connections are accepted") != 1 || strings.Contains(log, "too many open files") {
				t.Errorf("it logs %s", log)
			}
			n.signal(t, syscall.SIGTERM)
			if code := n.exit(t); code != exitOK {
				t.Errorf("it ends with %d", code)
			}
		})
	}
}

// startWith runs a node after a command of the shell, and returns when it is ready.
func startWith(t *testing.T, before string, args ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shell := write(t, "start.sh", fmt.Sprintf("#!/bin/sh\n%s\nexec %q \"$@\"\n", before, self))
	if err := os.Chmod(shell, 0o700); err != nil {
		t.Fatal(err)
	}
	n := launchBy(t, shell, "127.0.0.1:0", nil, args...)
	n.awaitReady(t)
	return n
}
