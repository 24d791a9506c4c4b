// Package browsertest drives a real Chromium in tests. It speaks the DevTools protocol over a pair of pipes, so it needs neither a port
// nor a library.
//
//	browser.go  the process and its messages
//	page.go     what a person does on a page, and sees there
package browsertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for anything. It is long, because machines of tests are slow.
const patience = 2 * time.Minute

// Browser is a Chromium with a profile of its own.
type Browser struct {
	out io.Writer // of messages to it; guarded by mu

	mu      sync.Mutex
	next    int64                     // guarded by mu: the number of the next call
	calls   map[int64]chan<- *message // guarded by mu: that wait for an answer
	pages   map[string]*Page          // guarded by mu: by their sessions
	stopped error                     // guarded by mu: why nothing is answered any more
}

// message is one message of the protocol, in either direction.
type message struct {
	ID      int64           `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Path returns the path of a Chromium. The test is skipped if there is none.
func Path(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium here, so the page is NOT looked at in a browser; scripts/need chromium installs it")
	return ""
}

// Start starts a browser, which ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := Path(t)
	profile, err := os.MkdirTemp("", "chromium-of-a-test-")
	if err != nil {
		t.Fatal(err)
	}
	toBrowser, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-extensions",
		// Each window has pages for its address bar, which no test sees. They take half of the processor time of a browser.
		"--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
		"--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // descriptors 3 and 4
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = toBrowser.Close(), fromBrowser.Close()
	b := &Browser{out: out, calls: make(map[int64]chan<- *message), pages: make(map[string]*Page)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(in)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = out.Close()
		_ = in.Close()
		<-read
		_ = os.RemoveAll(profile) // files that a late process still writes are no failure
	})
	return b
}

// read delivers the messages of the browser until the browser exits.
func (b *Browser) read(in io.Reader) {
	r := bufio.NewReader(in)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.end(fmt.Errorf("the browser has ended: %w", err))
			return
		}
		m := new(message)
		if err := json.Unmarshal(text[:len(text)-1], m); err != nil {
			b.end(fmt.Errorf("the browser sends %.100q: %w", text, err))
			return
		}
		b.mu.Lock()
		wanted, page := b.calls[m.ID], b.pages[m.Session]
		delete(b.calls, m.ID)
		b.mu.Unlock()
		switch {
		case wanted != nil:
			wanted <- m
		case page != nil && m.Method != "":
			page.take(m)
		}
	}
}

func (b *Browser) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = why
	for id, c := range b.calls {
		close(c)
		delete(b.calls, id)
	}
}

// call calls a method, and decodes its result into result, which may be nil.
func (b *Browser) call(session, method string, params, result any) error {
	encoded, err := json.Marshal(params)
	if err != nil {
		return err
	}
	done := make(chan *message, 1)
	b.mu.Lock()
	if b.stopped != nil {
		b.mu.Unlock()
		return b.stopped
	}
	b.next++
	m := message{ID: b.next, Method: method, Params: encoded, Session: session}
	text, err := json.Marshal(m)
	if err == nil {
		b.calls[m.ID] = done
		_, err = b.out.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-late.C:
		return fmt.Errorf("%s: no answer", method)
	case answer, ok := <-done:
		switch {
		case !ok:
			return errors.New("the browser has ended")
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		case result != nil:
			return json.Unmarshal(answer.Result, result)
		}
		return nil
	}
}
