package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/taskengine/taskengine/internal/access"
)

// refreshed is the answer to the script of an open page: the content without the frame, since the frame has the name of the person.
type refreshed struct {
	content []byte
	tag     string // of the content
}

// errAlone says that a refresh is for one request alone: it is an error or leads elsewhere.
var errAlone = errors.New("it is not shared")

// serveRefresh answers the script of an open page. Pages of one address and the same rights share an answer as long as the answers of the API in
// it are shared, and a second at most: many open pages would keep the node from starting tasks otherwise.
func (d *dashboard) serveRefresh(w http.ResponseWriter, v *view, p page) {
	key := cacheKey{v.rights(), "page\x00" + p.template + "\x00" + v.URL.RequestURI()}
	c := &d.cache
	c.mu.Lock()
	one := c.all[key]
	isMine := one == nil || one.isOver(v.now)
	if isMine {
		one = &cached{by: access.HashOf(v.secret), ready: make(chan struct{})}
		c.put(v.now, key, one)
	}
	c.mu.Unlock()
	if isMine {
		d.refresh(w, v, p, one)
		return
	}
	select {
	case <-one.ready:
	case <-v.ctx.Done():
		d.failAs(w, v, v.ctx.Err())
		return
	}
	if got, ok := one.value.(*refreshed); ok {
		d.send(w, v, http.StatusOK, got.content, got.tag)
		return
	}
	d.servePage(w, v, p)
}

// refresh makes the content of a page for its script, and for the requests that wait for one.
func (d *dashboard) refresh(w http.ResponseWriter, v *view, p page, one *cached) {
	one.err = errAlone
	defer close(one.ready)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), pagePatience)
	defer cancel()
	v.ctx, v.until = ctx, v.now.Add(leastFresh)
	data, ok := d.load(w, v, p)
	if !ok {
		return
	}
	content, ok := d.draw(w, p.template, "refresh", d.layoutOf(v, p, data))
	if !ok {
		return
	}
	got := &refreshed{content, tagOf(content)}
	if v.until.After(v.now) {
		one.value, one.err, one.until = got, nil, v.until
	}
	d.send(w, v, http.StatusOK, got.content, got.tag)
}

// tagOf returns the entity tag of a content.
func tagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// draw executes a template. If that fails, it answers the request and returns false.
func (d *dashboard) draw(w http.ResponseWriter, template, part string, values any) ([]byte, bool) {
	var b bytes.Buffer
	if err := d.shapes[template].ExecuteTemplate(&b, part, values); err != nil {
		d.Log.Error("a page of the dashboard cannot be shown; please report it", "page", template, "error", err)
		http.Error(w, "the page cannot be shown; the log of the node has the reason", http.StatusInternalServerError)
		return nil, false
	}
	return bytes.Map(visible, b.Bytes()), true // values that a template does not escape, such as those of a form, too
}
