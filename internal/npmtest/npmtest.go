// Package npmtest has tests use packages of npm, at versions that are pinned.
package npmtest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Install copies the files of a folder of files into a new folder, with the packages of its package-lock.json, and returns that. The
// test is skipped if npm cannot get them, with what as the name of the part that is not tested.
func Install(t testing.TB, files fs.FS, folder, what string) string {
	t.Helper()
	to := t.TempDir()
	all, err := fs.Sub(files, folder)
	if err == nil {
		err = os.CopyFS(to, all)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
	cmd.Dir = to
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("npm does not get its packages, so %s: %v\n%s", what, err, out)
	}
	return filepath.Clean(to)
}
