package zk

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
)

func TestRequestsOnAConnectionThatIsLost(t *testing.T) {
	broken := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	for _, err := range []error{errSilent, zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrClosing, io.EOF, broken} {
		if err := fmt.Errorf("read 1 nodes: %w", err); !isLost(err) {
			t.Errorf("%v is no sign of a lost connection", err)
		}
	}
	for _, err := range []error{nil, zk.ErrNoNode, zk.ErrNoAuth, errors.New("another one")} {
		if isLost(err) {
			t.Errorf("%v is a sign of a lost connection", err)
		}
	}
}
