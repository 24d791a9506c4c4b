package server_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// encrypted serves the API of a node with TLS.
func (n *node) encrypted(t testing.TB, c *tls.Config) *server.Listener {
	t.Helper()
	api := n.handler()
	return listenTo(t, server.ListenConfig{Handler: api, GRPC: api.GRPC(), TLS: c})
}

// settingsOf returns the settings of a server with a certificate of an authority.
func settingsOf(t testing.TB, a *certtest.Authority) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.Issue(t, "node", "127.0.0.1").Certificate}, NextProtos: []string{"h2", "http/1.1"}}
}

func TestEveryProtocolIsSpokenOverTLS(t *testing.T) {
	n, a := newNode(t), certtest.New(t)
	address := n.encrypted(t, settingsOf(t, a)).Addr().String()
	for name, c := range map[string]struct {
		h2      bool
		options []connect.ClientOption
	}{
		"gRPC":                   {true, []connect.ClientOption{connect.WithGRPC()}},
		"gRPC-Web over HTTP/1.1": {false, []connect.ClientOption{connect.WithGRPCWeb()}},
		"Connect over HTTP/1.1":  {false, nil},
		"Connect over HTTP/2":    {true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{TLSClientConfig: a.Client(), ForceAttemptHTTP2: c.h2}
			defer transport.CloseIdleConnections()
			client := taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: transport}, "https://"+address, c.options...)
			if res, err := client.Version(t.Context(), &taskenginev1.VersionRequest{}); err != nil || res.GetNode() != "n1" {
				t.Errorf("it answers %v, %v", res, err)
			}
		})
	}
	t.Run("a library of gRPC, with a stream", func(t *testing.T) {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(a.Client())))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, taskenginev1connect.TaskServiceSubmitStreamProcedure)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendMsg(&taskenginev1.SubmitStreamRequest{Tasks: []*taskenginev1.StreamedTask{{Sequence: 7, Task: &taskenginev1.NewTask{Type: "idle"}}}}); err != nil {
			t.Fatal(err)
		}
		res := new(taskenginev1.SubmitStreamResponse)
		if err := s.RecvMsg(res); err != nil || res.GetOutcomes()[0].GetReceipt() == nil {
			t.Errorf("it answers %v, %v", res, err)
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
		if err := s.RecvMsg(res); err != io.EOF {
			t.Errorf("the stream ends with %v", err)
		}
	})
}

func TestARequestWithoutTLSIsRefusedWithTheAdviceToUseIt(t *testing.T) {
	n := newNode(t)
	l := n.encrypted(t, settingsOf(t, certtest.New(t)))
	res, err := httpClient(t, false).Get("http://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "use https") {
		t.Errorf("it answers %d %q", res.StatusCode, text)
	}
}

// A client without a handshake ends its own connection and nothing else.
func TestAConnectionThatDoesNotSpeakTLSEnds(t *testing.T) {
	n, a := newNode(t), certtest.New(t)
	l := n.encrypted(t, settingsOf(t, a))
	for _, sent := range []string{"\x16\x03\x01\x00\x05hello", "\x16\x03\x01\xff\xff", strings.Repeat("\x00", 600), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c) // it ends; the system may say that it was reset
		c.Close()
	}
	c, err := tls.Dial("tcp", l.Addr().String(), a.Client())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
