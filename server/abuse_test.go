package server_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// silentConns opens connections that send begin and nothing more, in the background, until the test ends.
func silentConns(t *testing.T, count int, dial func(context.Context) (net.Conn, error), begin string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	opened := make(chan struct{}, count)
	for range count {
		all.Go(func() {
			c, err := dial(ctx)
			if err != nil {
				opened <- struct{}{} // it was closed in the handshake, or the test is over
				return
			}
			_, _ = io.WriteString(c, begin) // the server may have closed it
			opened <- struct{}{}
			<-ctx.Done()
			c.Close()
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	for range min(count, 100) { // the rest may have to wait for room
		<-opened
	}
}

// Clients that send nothing, or no request, take all places. Others get one all the same.
func TestConnectionsThatSendNothingDoNotKeepOthersOut(t *testing.T) {
	n, a := newNode(t), certtest.New(t)
	for name, c := range map[string]struct {
		allowed, silent int
		tls             *tls.Config
		begin           string
	}{
		"nothing":                     {1000, 2000, nil, ""},
		"a preface and no request":    {50, 100, nil, http2.ClientPreface},
		"half a header":               {50, 100, nil, "POST / HTTP/1.1\r\nHost: "},
		"nothing where TLS is wanted": {50, 100, settingsOf(t, a), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := n.handler()
			l := listenTo(t, server.ListenConfig{Handler: api, GRPC: api.GRPC(), TLS: c.tls, MaxConnections: c.allowed})
			dialer := new(net.Dialer)
			silentConns(t, c.silent, func(ctx context.Context) (net.Conn, error) {
				return dialer.DialContext(ctx, "tcp", l.Addr().String())
			}, c.begin)
			transport := &http.Transport{TLSClientConfig: a.Client()}
			defer transport.CloseIdleConnections()
			base := map[bool]string{false: "http://", true: "https://"}[c.tls != nil] + l.Addr().String()
			client := taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: transport}, base)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			if _, err := client.Version(ctx, &taskenginev1.VersionRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A connection that made requests keeps its place when there is no more room.
func TestAConnectionWithRequestsIsNotClosedToMakeRoom(t *testing.T) {
	l, err := server.Listen(t.Context(), server.ListenConfig{
		Address: "127.0.0.1:0", MaxConnections: 2, Log: slog.New(slog.DiscardHandler),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	dial := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first := dial()
	ask(t, first)
	for range 2 {
		dial() // sends nothing
		ask(t, first)
		third := dial()
		ask(t, third) // the silent one was closed
		ask(t, first)
		third.Close()
	}
}

// Whatever bytes a client sends, its connection ends and the node goes on.
func TestMalformedFramesEndTheirConnection(t *testing.T) {
	n := newNode(t)
	preface := http2.ClientPreface
	settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, sent := range map[string]string{
		"no frame":                      preface + "GET / HTTP/1.1\r\n\r\n",
		"a frame that is too large":     preface + settings + "\xff\xff\xff\x01\x05\x00\x00\x00\x01",
		"a header of no compression":    preface + settings + "\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff",
		"a header on stream 0":          preface + settings + "\x00\x00\x01\x01\x05\x00\x00\x00\x00\x82",
		"data without a request":        preface + settings + "\x00\x00\x04\x00\x00\x00\x00\x00\x01abcd",
		"settings of a wrong size":      preface + "\x00\x00\x05\x04\x00\x00\x00\x00\x00abcde",
		"an end in the middle":          preface + settings + "\x00\x00\x10\x01",
		"a continuation of nothing":     preface + settings + "\x00\x00\x01\x09\x04\x00\x00\x00\x01\x82",
		"a ping of a wrong size":        preface + settings + "\x00\x00\x01\x06\x00\x00\x00\x00\x00a",
		"a request line without an end": "POST /",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.api.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, sent); err != nil {
				t.Fatal(err)
			}
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, c) // until the server ends it, which the system may call a reset
		})
	}
	if _, err := n.client(t).Version(t.Context(), &taskenginev1.VersionRequest{}); err != nil {
		t.Error(err)
	}
}
