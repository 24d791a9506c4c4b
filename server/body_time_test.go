package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage/memory"
)

// hurried starts an API with a limit of the time of a request, and returns its address.
func hurried(t *testing.T, patience time.Duration) (*API, string) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Config{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	api := NewAPI(APIConfig{Engine: e})
	api.intake.patience = patience
	l, err := Listen(t.Context(), ListenConfig{Address: "127.0.0.1:0", Handler: api, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return api, l.Addr().String()
}

// released checks that nothing is under way any more.
func released(t *testing.T, api *API) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		api.intake.mu.Lock()
		total := api.intake.total
		api.intake.mu.Unlock()
		if total == 0 {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d bytes are left under way", total)
		}
	}
}

func TestABodyThatTakesTooLongEndsItsConnection(t *testing.T) {
	api, address := hurried(t, 50*time.Millisecond)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", taskenginev1connect.TaskServiceSubmitProcedure, address)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if answer, err := io.ReadAll(c); err != nil || bytes.Contains(answer, []byte(" 200 ")) {
		t.Errorf("the connection gets %q, %v", answer, err)
	}
	released(t, api)
}

func TestABodyThatTakesTooLongEndsItsRequestOfHTTP2(t *testing.T) {
	api, address := hurried(t, 50*time.Millisecond)
	for procedure, kind := range map[string]string{
		taskenginev1connect.TaskServiceSubmitProcedure: "application/json", taskenginev1connect.TaskServiceSubmitStreamProcedure: "application/connect+json",
	} {
		body, w := io.Pipe()
		defer w.Close()
		go func() { _, _ = w.Write([]byte{0, 0, 0, 4, 0, '{'}) }() // of a stream: 1024 bytes follow
		res, err := post(t, address, procedure, kind, body)
		if err == nil {
			answer, readErr := io.ReadAll(res.Body)
			res.Body.Close()
			if readErr == nil && res.StatusCode == http.StatusOK && !bytes.Contains(answer, []byte(`"error"`)) {
				t.Errorf("%s gets %d: %q", procedure, res.StatusCode, answer)
			}
		}
		released(t, api)
	}
}

// A stream may be idle for as long as its client wants: only a message that has begun has a time limit.
func TestAStreamMayRestBetweenItsMessages(t *testing.T) {
	const patience = time.Second // a busy machine may read the rest of a message late
	_, address := hurried(t, patience)
	body, w := io.Pipe()
	go func() {
		for i := range 3 {
			if i > 0 {
				time.Sleep(patience + patience/4)
			}
			message := fmt.Appendf(nil, `{"tasks":[{"sequence":%d,"task":{"type":"a"}}]}`, i)
			frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
			if _, err := w.Write(append(frame, message...)); err != nil {
				t.Error(err)
			}
		}
		w.Close()
	}()
	res, err := post(t, address, taskenginev1connect.TaskServiceSubmitStreamProcedure, "application/connect+json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || bytes.Count(answer, []byte(`"receipt"`)) != 3 || bytes.Contains(answer, []byte(`"error":{"code"`)) {
		t.Errorf("it gets %q, %v", answer, err)
	}
}

// post makes a request over HTTP/2 without TLS.
func post(t *testing.T, address, procedure, kind string, body io.Reader) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+procedure, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &p}
	t.Cleanup(transport.CloseIdleConnections)
	return (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
}
