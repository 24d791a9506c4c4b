package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// framesConn is a connection that reads the bytes that a test gives it.
type framesConn struct {
	net.Conn
	bytes.Buffer
	closed chan struct{}
}

func newFramesConn() *framesConn { return &framesConn{closed: make(chan struct{}, 10)} }

func (c *framesConn) Read(p []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
		return c.Buffer.Read(p)
	}
}
func (c *framesConn) Write(p []byte) (int, error) { return c.Buffer.Write(p) }
func (c *framesConn) Close() error                { c.closed <- struct{}{}; return nil }
func (c *framesConn) RemoteAddr() net.Addr        { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5} }

// begun returns the beginning of a message of so many bytes, of which n are there.
func begun(size, n int) []byte {
	p := make([]byte, 5+n)
	binary.BigEndian.PutUint32(p[1:], uint32(size))
	return p
}

func smallIntake(perConnection, perNode int64) *intake {
	in := newIntake(0, slog.New(slog.DiscardHandler))
	in.perConnection, in.perNode, in.patience = perConnection, perNode, time.Minute
	return in
}

// readAll reads all bytes of the connection, in parts of n bytes.
func readAll(c net.Conn, n int) error {
	p := make([]byte, n)
	for {
		if _, err := c.Read(p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestWhatAConnectionHasUnderWayIsWhatIsNotFinished(t *testing.T) {
	for _, part := range []int{1, 7, 1 << 20} {
		raw := newFramesConn()
		in := smallIntake(1<<20, 1<<20)
		c := newMeteredConn(raw, in, len(http2.ClientPreface))
		f := http2.NewFramer(raw, nil)
		raw.WriteString(http2.ClientPreface)
		f.WriteSettings()
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true})
		f.WriteData(1, false, begun(3000, 1000))
		f.WriteData(3, false, append(begun(10, 10), begun(5000, 500)...)) // a message, and a part of the next one
		f.WriteDataPadded(5, false, begun(2000, 1500), make([]byte, 100))
		f.WriteData(7, true, begun(400, 400))
		if err := readAll(c, part); err != nil {
			t.Fatal(err)
		}
		if len(c.streams) != 3 || part > 1 && (in.total < 3000 || in.total > 4500) {
			t.Errorf("in parts of %d bytes: %d streams with %d bytes under way", part, len(c.streams), in.total)
		}
		f.WriteData(1, true, make([]byte, 2000))
		f.WriteRSTStream(3, http2.ErrCodeCancel)
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, EndHeaders: true, EndStream: true})
		if err := readAll(c, part); err != nil {
			t.Fatal(err)
		}
		if len(c.streams) != 0 || in.total != 0 || len(in.all) != 0 {
			t.Errorf("in parts of %d bytes: at the end %d streams with %d bytes under way", part, len(c.streams), in.total)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAConnectionThatHasTooMuchUnderWayEnds(t *testing.T) {
	in := smallIntake(10_000, 25_000)
	open := func() (*framesConn, *meteredConn, *http2.Framer) {
		raw := newFramesConn()
		return raw, newMeteredConn(raw, in, 0), http2.NewFramer(raw, nil)
	}
	raw, c, f := open()
	for stream := uint32(1); stream < 40; stream += 2 {
		f.WriteData(stream, false, begun(1000, 900))
	}
	if err := readAll(c, 4096); !errors.Is(err, errUnderWay) || len(raw.closed) != 1 {
		t.Errorf("20 messages of a connection: %v", err)
	}
	c.Close()
	if in.total != 0 {
		t.Errorf("%d bytes are left under way", in.total)
	}
	_, tiny, f := open()
	f.WriteData(1, false, begun(1<<20, 0))
	for range 100 { // frames of a byte take more than a byte
		f.WriteData(1, false, []byte{1})
	}
	if err := readAll(tiny, 4096); !errors.Is(err, errUnderWay) {
		t.Errorf("tiny frames: %v", err)
	}
	tiny.Close()
	var largest *framesConn
	var all []*meteredConn
	for i, size := range []int{8000, 9500, 7000} { // the third makes it too much for the node
		raw, c, f := open()
		if i == 1 {
			largest = raw
		}
		f.WriteData(1, false, begun(1<<20, size))
		if err := readAll(c, 4096); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
		all = append(all, c)
	}
	_, last, f := open()
	f.WriteData(1, false, begun(1<<20, 1000))
	if err := readAll(last, 4096); err != nil || len(largest.closed) != 1 {
		t.Errorf("the connection that has most has not ended: %v", err)
	}
	for _, c := range append(all, last) {
		c.Close()
	}
	if in.total != 0 || len(in.all) != 0 {
		t.Errorf("%d bytes are left under way", in.total)
	}
}

func TestAMessageThatTakesTooLongEndsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := smallIntake(1<<20, 1<<20)
		slow, idle := newFramesConn(), newFramesConn()
		a, b := newMeteredConn(slow, in, 0), newMeteredConn(idle, in, 0)
		http2.NewFramer(idle, nil).WriteData(1, false, begun(100, 100)) // a stream that is open, without a message under way
		readAll(b, 4096)
		f := http2.NewFramer(slow, nil)
		for range 4 {
			f.WriteData(1, false, begun(100, 50))
			readAll(a, 4096)
			time.Sleep(30 * time.Second)
			f.WriteData(1, false, make([]byte, 50))
			readAll(a, 4096)
		}
		f.WriteData(1, false, begun(100, 50))
		readAll(a, 4096)
		time.Sleep(59 * time.Second)
		if len(slow.closed) != 0 {
			t.Error("it has ended early")
		}
		time.Sleep(2 * time.Second)
		if len(slow.closed) != 1 || len(idle.closed) != 0 {
			t.Errorf("ended: %d, %d", len(slow.closed), len(idle.closed))
		}
		a.Close()
		b.Close()
	})
}

func TestARequestOfHTTPCountsUntilItIsRead(t *testing.T) {
	in := smallIntake(10_000, 1<<20)
	api := &API{intake: in}
	shared := &inflow{of: in, close: func() {}}
	send := func(size int, then func()) (err error) {
		r, w := io.Pipe()
		done := make(chan struct{})
		h := api.metered(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			defer close(done)
			p := make([]byte, size)
			if _, err = io.ReadFull(r.Body, p); err == nil {
				then()
				_, err = io.ReadAll(r.Body)
			}
		}))
		req, newErr := http.NewRequestWithContext(context.WithValue(t.Context(), inflowKey{}, shared), http.MethodPost, "http://x/", r)
		if newErr != nil {
			t.Fatal(newErr)
		}
		go func() {
			w.Write(make([]byte, size))
			w.Close()
		}()
		h.ServeHTTP(discarding{}, req)
		<-done
		r.Close()
		return err
	}
	if err := send(8000, func() {
		if in.total != 8000 {
			t.Errorf("%d bytes are under way", in.total)
		}
		if err := send(4000, func() {}); !errors.Is(err, errUnderWay) {
			t.Errorf("a second request: %v", err)
		}
	}); err != nil {
		t.Error(err)
	}
	if in.total != 0 {
		t.Errorf("%d bytes are left under way", in.total)
	}
}

// discarding is a response that nothing reads.
type discarding struct{}

func (discarding) Header() http.Header         { return make(http.Header) }
func (discarding) Write(p []byte) (int, error) { return len(p), nil }
func (discarding) WriteHeader(int)             {}
