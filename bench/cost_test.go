package bench

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// tellsWrites reports whether the system counts the bytes that a process writes to the disk of a folder.
func tellsWrites(t *testing.T, dir string) bool {
	t.Helper()
	before := used(nil).written
	if err := os.WriteFile(filepath.Join(dir, "probe"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return used(nil).written > before
}

func TestWhatAChildWroteCountsAfterItWasKilled(t *testing.T) {
	dir := diskDir(t)
	counted := tellsWrites(t, dir)
	before := used(nil).written
	const size = 4 << 20
	child := exec.Command("sh", "-c", `head -c 4194304 /dev/zero > "$0" && echo written && exec sleep 60`, filepath.Join(dir, "file"))
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "written\n" {
		t.Errorf("the child said %q: %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if wrote := used(nil).written - before; counted != (wrote >= size) {
		t.Errorf("%d bytes were written, want %d or more if the system counts them: %v", wrote, size, counted)
	}
}
