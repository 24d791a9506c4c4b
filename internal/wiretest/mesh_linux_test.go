package wiretest

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// sends starts a process that sends its input to an address, and returns the writer of the input.
func sends(t *testing.T, to string) (pid int, in io.Writer) {
	t.Helper()
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", `exec cat >"/dev/tcp/$0/$1"`, host, port)
	in, err = cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid, in
}

func TestAMeshStallsTheConnectionsOfOneProcessAlone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := NewMesh(t)
	address := m.Reach(0, l.Addr().String())
	accept := func(in io.Writer) net.Conn {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(in, "a"); err != nil {
			t.Fatal(err)
		}
		answers(t, c, "a")
		return c
	}
	isolated, one := sends(t, address)
	first := accept(one)
	other, two := sends(t, address)
	second := accept(two)
	m.Isolate(1, []int{0, isolated, other})
	for _, in := range []io.Writer{one, two} {
		if _, err := io.WriteString(in, "b"); err != nil {
			t.Fatal(err)
		}
	}
	answers(t, second, "b")
	_ = first.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := first.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes of an isolated process, %v", n, err)
	}
	m.Heal()
	answers(t, first, "b")
}
