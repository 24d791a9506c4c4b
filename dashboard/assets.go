package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/taskengine/taskengine/internal/chart"
)

//go:embed static
var static embed.FS

// The paths of assets.
const (
	styleAsset  = "dashboard.css"
	scriptAsset = "dashboard.js"
	iconAsset   = "icon.svg"
)

// asset is a file of a page.
type asset struct {
	kind          string // its media type
	plain, zipped []byte
	tag           string // changes with its content
}

// readAssets returns the assets by their paths.
func readAssets() map[string]asset {
	return map[string]asset{
		styleAsset:  newAsset("text/css; charset=utf-8", append([]byte(chart.Style()), file(styleAsset)...)),
		scriptAsset: newAsset("text/javascript; charset=utf-8", file(scriptAsset)),
		iconAsset:   newAsset("image/svg+xml", file(iconAsset)),
	}
}

func file(name string) []byte {
	content, err := static.ReadFile("static/" + name)
	if err != nil {
		panic(fmt.Sprintf("dashboard: %v, which the build embeds", err))
	}
	return content
}

func newAsset(kind string, content []byte) asset {
	var zipped bytes.Buffer
	z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(content)
	}
	if err != nil || z.Close() != nil {
		panic(fmt.Sprintf("dashboard: compress: %v", err))
	}
	sum := sha256.Sum256(content)
	return asset{kind, content, zipped.Bytes(), `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// ServeHTTP implements [http.Handler]. Browsers ask each time whether it has changed, so that a node of another version is noticed.
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", a.kind)
	h.Set("ETag", a.tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		content = a.zipped
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = w.Write(content) // a browser that has gone is seen elsewhere
}
