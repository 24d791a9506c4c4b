//go:build unix

package pgtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/servertest"
)

const roleOwner = "owner"

// own starts a server and a bouncer, prints their folder, and waits until it is killed.
func own() {
	s, err := Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := findBouncer()
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := servertest.AtFreePort(func(port int) error {
		_, err := s.launchBouncer(path, port, nil)
		return err
	}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.group.Folder())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestNothingOutlivesAnOwnerThatIsKilled(t *testing.T) {
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), roleVariable+"="+roleOwner)
	owner.Stderr = os.Stderr
	stdin, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// The programs that the owner starts inherit the end for writing, since it is not marked as
	// close-on-exec. They get their own pipe as file 3, so this one is file 4.
	left, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	owner.ExtraFiles = []*os.File{nil, inherited}
	err = owner.Start()
	inherited.Close()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := bufio.NewReader(stdout).ReadString('\n')
	folder = strings.TrimSpace(folder)
	if _, missing := os.Stat(folder); err != nil || missing != nil {
		t.Errorf("the owner says %q: %v, %v", folder, err, missing)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it was killed

	drained(t, left)
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder %s is left: %v", folder, err)
	}
}

func TestAnyFolderWillDo(t *testing.T) {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil { // so that the server's user reaches its files
		t.Fatal(err)
	}
	for what, name := range map[string]string{
		"odd":  `it's a "folder"`,
		"list": "one,two",
		"long": strings.Repeat("x", 100),
	} {
		t.Run(what, func(t *testing.T) {
			folder := filepath.Join(root, name)
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", folder)
			s := startOne(t)
			s.Database(t)
			s.Bouncer(t)
			if in := filepath.Dir(s.group.Folder()); (in == folder) != (what != "long") {
				t.Errorf("the server is in %s", in)
			}
		})
	}
}
