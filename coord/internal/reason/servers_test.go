package reason_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/reason"
)

func TestOnlyWhatOneSideRefusesIsARefusal(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err     error
		refused bool
	}{
		{dial(&net.DNSError{Err: "no such host", Name: "etcd.invalid", IsNotFound: true}), false},
		{dial(&net.AddrError{Err: "missing port in address", Addr: "etcd"}), false},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), false},
		{dial(os.ErrDeadlineExceeded), false},
		{&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, false},
		{context.DeadlineExceeded, false},
		{io.EOF, false},
		{errors.New("something else"), false},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, true},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, true},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, true},
		{&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, true},
	} {
		s := reason.NewServers(1, new(tls.Config))
		s.Note("host:1", fmt.Errorf("handshake: %w", c.err))
		err := s.Err()
		if errors.Is(err, coord.ErrRefused) != c.refused || !strings.Contains(err.Error(), "host:1") {
			t.Errorf("%v is explained as %v; is it a refusal? want %v", c.err, err, c.refused)
		}
	}
}

func TestAContextEndsWhenAllServersRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reason.NewServers(2, new(tls.Config))
		ctx, release := s.Guard(t.Context())
		defer release()
		refusal := tls.RecordHeaderError{Msg: "no TLS"}
		s.Note("a:1", refusal)
		s.Note("b:1", io.EOF)
		synctest.Wait()
		if ctx.Err() != nil || errors.Is(s.Err(), coord.ErrRefused) {
			t.Errorf("with one refusal of two: %v, %v", context.Cause(ctx), s.Err())
		}
		s.Note("a:1", nil)
		s.Note("b:1", refusal)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Errorf("with a server that answers: %v", context.Cause(ctx))
		}
		s.Note("a:1", refusal)
		synctest.Wait()
		if cause := context.Cause(ctx); !errors.Is(cause, coord.ErrRefused) {
			t.Errorf("with refusals by all: %v", cause)
		}
		s.Note("a:1", nil)
		s.Note("b:1", nil)
		if s.Err() != nil {
			t.Errorf("with servers that answer: %v", s.Err())
		}
	})
}
