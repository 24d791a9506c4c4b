package browsertest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Page is a tab with cookies of its own. A method fails the test if the browser does not do what it is asked.
type Page struct {
	t       testing.TB
	b       *Browser
	session string
	target  string // of the tab
	context string // of its cookies and its window

	mu       sync.Mutex
	faults   []string // guarded by mu: errors of scripts and of the console
	requests []string // guarded by mu: URLs
	bytes    int64    // guarded by mu: received, with headers, as they were on the wire
}

// Open opens a page.
func (b *Browser) Open(t testing.TB, url string) *Page {
	t.Helper()
	p := &Page{t: t, b: b}
	var context struct{ BrowserContextID string }
	var target struct{ TargetID string }
	var session struct{ SessionID string }
	p.must("", "Target.createBrowserContext", map[string]any{}, &context)
	p.must("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": context.BrowserContextID}, &target)
	p.must("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	p.session, p.target, p.context = session.SessionID, target.TargetID, context.BrowserContextID
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	t.Cleanup(func() {
		b.mu.Lock()
		delete(b.pages, p.session)
		b.mu.Unlock()
		_ = b.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": context.BrowserContextID}, nil) // the browser may have ended
	})
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.do(domain+".enable", map[string]any{}, nil)
	}
	p.Resize(1280, 900)
	p.Go(url)
	return p
}

func (p *Page) must(session, method string, params, result any) {
	p.t.Helper()
	if err := p.b.call(session, method, params, result); err != nil {
		p.t.Fatal(err)
	}
}

func (p *Page) do(method string, params, result any) {
	p.t.Helper()
	p.must(p.session, method, params, result)
}

// take takes note of an event.
func (p *Page) take(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		var what struct {
			Entry            struct{ Level, Text, URL string }
			ExceptionDetails json.RawMessage
		}
		if err := json.Unmarshal(m.Params, &what); err != nil || what.Entry.Level == "error" || len(what.ExceptionDetails) > 0 {
			p.faults = append(p.faults, strings.TrimSpace(fmt.Sprintf("%s %s %.500s", what.Entry.Text, what.Entry.URL, what.ExceptionDetails)))
		}
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		_ = json.Unmarshal(m.Params, &sent) // a test misses the request
		p.requests = append(p.requests, sent.Request.URL)
	case "Network.loadingFinished", "Network.loadingFailed":
		var done struct{ EncodedDataLength float64 }
		_ = json.Unmarshal(m.Params, &done) // likewise
		p.bytes += int64(done.EncodedDataLength)
	}
}

// Go goes to a page, and waits until it is loaded.
func (p *Page) Go(url string) {
	p.t.Helper()
	p.Do(`window.wasHere = true`)
	var went struct{ ErrorText string }
	p.do("Page.navigate", map[string]any{"url": url}, &went)
	if went.ErrorText != "" {
		p.t.Fatalf("%s: %s", url, went.ErrorText)
	}
	p.Until(`!window.wasHere && document.readyState === "complete"`)
}

// Loads calls do, which leads to another page, and waits until that is loaded.
func (p *Page) Loads(do func()) {
	p.t.Helper()
	p.Do(`window.wasHere = true`)
	do()
	p.Until(`!window.wasHere && document.readyState === "complete"`)
}

// eval returns the value of an expression as JSON.
func (p *Page) eval(js string) (json.RawMessage, error) {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.b.call(p.session, "Runtime.evaluate", map[string]any{"expression": js, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &got)
	if err == nil && got.ExceptionDetails != nil {
		err = fmt.Errorf("%s: %s %s", js, got.ExceptionDetails.Text, got.ExceptionDetails.Exception.Description)
	}
	return got.Result.Value, err
}

// Do runs a script.
func (p *Page) Do(js string) {
	p.t.Helper()
	if _, err := p.eval(js); err != nil {
		p.t.Fatal(err)
	}
}

// Get returns the value of an expression, which has the type T.
func Get[T any](p *Page, js string) (value T) {
	p.t.Helper()
	got, err := p.eval(js)
	if err == nil && got != nil {
		err = json.Unmarshal(got, &value)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return value
}

// Text returns the text of an element, as it is shown.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return Get[string](p, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "(there is no such element)"`, selector))
}

// Until waits until an expression is true.
func (p *Page) Until(js string) {
	p.t.Helper()
	var last error
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		got, err := p.eval("!!(" + js + ")")
		if err == nil && string(got) == "true" {
			return
		}
		if last = err; time.Since(begin) > patience {
			shown, _ := p.eval(`location.href + "\n" + document.body.innerText`)
			p.t.Fatalf("it does not become true that %s: %v\nthe page is %s", js, last, shown)
		}
	}
}

// Click clicks on an element with the mouse.
func (p *Page) Click(selector string) {
	p.t.Helper()
	at := Get[[]float64](p, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2] })()`, selector))
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

// Press presses keys, one after the other: letters, or names such as Enter and Tab.
func (p *Page) Press(keys ...string) {
	p.t.Helper()
	codes := map[string]int{"Enter": 13, "Tab": 9, "Escape": 27}
	for _, key := range keys {
		down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": codes[key]}
		switch {
		case key == "Enter":
			down["text"] = "\r"
		case len([]rune(key)) == 1:
			down["text"] = key
		}
		p.do("Input.dispatchKeyEvent", down, nil)
		p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]}, nil)
	}
}

// Type types a text where the focus is.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.do("Input.insertText", map[string]any{"text": text}, nil)
}

// Resize changes the size of the window.
func (p *Page) Resize(width, height int) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// Prefer sets what the person prefers, such as ("prefers-color-scheme", "dark").
func (p *Page) Prefer(feature, value string) {
	p.t.Helper()
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": feature, "value": value}}}, nil)
}

// Hide shows another tab of the window, as a person does, so that the page is hidden until show is called.
func (p *Page) Hide() (show func()) {
	p.t.Helper()
	var other struct{ TargetID string }
	p.must("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": p.context}, &other)
	p.must("", "Target.activateTarget", map[string]any{"targetId": other.TargetID}, nil)
	p.Until(`document.visibilityState === "hidden"`)
	return func() {
		p.t.Helper()
		p.must("", "Target.activateTarget", map[string]any{"targetId": p.target}, nil)
		p.must("", "Target.closeTarget", map[string]any{"targetId": other.TargetID}, nil)
		p.Until(`document.visibilityState === "visible"`)
	}
}

// Offline has the browser reach nothing, or everything again.
func (p *Page) Offline(is bool) {
	p.t.Helper()
	p.do("Network.emulateNetworkConditions", map[string]any{"offline": is, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}, nil)
}

// Picture writes a picture of the page to a file of the folder that the environment variable TASKENGINE_PICTURES names, if it is set.
func (p *Page) Picture(name string) {
	p.t.Helper()
	folder := os.Getenv("TASKENGINE_PICTURES")
	if folder == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), p.shot(true), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// Shot returns a picture of the window, as PNG.
func (p *Page) Shot() []byte {
	p.t.Helper()
	return p.shot(false)
}

func (p *Page) shot(beyond bool) []byte {
	p.t.Helper()
	var shot struct{ Data string }
	p.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": beyond}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return png
}

// Faults returns the errors of scripts and of the console since the last call.
func (p *Page) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.faults
	p.faults = nil
	return found
}

// Traffic returns the URLs that the page has asked for since the last call, and the bytes that it has got.
func (p *Page) Traffic() (urls []string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	urls, bytes = p.requests, p.bytes
	p.requests, p.bytes = nil, 0
	return urls, bytes
}
