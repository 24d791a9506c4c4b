package handlers

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// What of HTTP/2 a server needs to reset every request.
const (
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeader = 9

	typeData, typeHeaders, typeReset, typeSettings = 0x0, 0x1, 0x3, 0x4

	flagAck, flagEndStream = 0x1, 0x1
)

func writeFrame(w io.Writer, typ, flags byte, stream uint32, payload []byte) error {
	b := []byte{0, 0, byte(len(payload)), typ, flags}
	b = binary.BigEndian.AppendUint32(b, stream)
	_, err := w.Write(append(b, payload...))
	return err
}

// resets serves a connection by resetting each request with an error code once it has all
// of it. It counts the requests.
func resets(c net.Conn, code uint32, received *atomic.Int32) error {
	if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
		return err
	}
	if err := writeFrame(c, typeSettings, 0, 0, nil); err != nil {
		return err
	}
	for {
		h := make([]byte, frameHeader)
		if _, err := io.ReadFull(c, h); err != nil {
			return err
		}
		size := int64(h[0])<<16 | int64(h[1])<<8 | int64(h[2])
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return err
		}
		typ, flags, stream := h[3], h[4], binary.BigEndian.Uint32(h[5:])
		if typ == typeSettings && flags&flagAck == 0 {
			if err := writeFrame(c, typeSettings, flagAck, 0, nil); err != nil {
				return err
			}
		}
		if (typ == typeHeaders || typ == typeData) && flags&flagEndStream != 0 {
			received.Add(1)
			if err := writeFrame(c, typeReset, 0, stream, binary.BigEndian.AppendUint32(nil, code)); err != nil {
				return err
			}
		}
	}
}

func TestARequestOfHTTP2IsSentOnce(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	const protocolError, refusedStream = 0x1, 0x7 // of the codes that the transport sends a request again after
	for name, code := range map[string]uint32{"protocol error": protocolError, "refused": refusedStream} {
		for _, method := range []string{"POST", "GET"} {
			for _, payload := range []string{"", "payload"} {
				t.Run(name+" "+method+" "+payload, func(t *testing.T) {
					l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
						Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"},
					})
					if err != nil {
						t.Fatal(err)
					}
					var received atomic.Int32
					done := make(chan struct{})
					go func() {
						defer close(done)
						for {
							c, err := l.Accept()
							if err != nil {
								return
							}
							resets(c, code, &received) // it ends with the client
							c.Close()
						}
					}()
					h, err := NewHTTP(HTTPConfig{URL: "https://" + l.Addr().String(), Method: method, Timeout: 2 * time.Minute})
					if err != nil {
						t.Fatal(err)
					}
					for _, client := range []*http.Client{h.reuse, h.fresh} {
						transport := client.Transport.(*http.Transport)
						if transport.TLSClientConfig == nil {
							transport.TLSClientConfig = new(tls.Config)
						}
						transport.TLSClientConfig.RootCAs = roots
					}
					_, err = h.Handle(t.Context(), &task.Task{Type: "t", Version: 1, Payload: []byte(payload)})
					if v := task.VerdictOf(nil, err); !v.InDoubt || v.Class != "network" {
						t.Errorf("got %+v", v)
					}
					h.Close()
					l.Close()
					<-done
					if n := received.Load(); n != 1 {
						t.Errorf("%d requests reached the server", n)
					}
				})
			}
		}
	}
}
