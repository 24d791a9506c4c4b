package dashboard_test

import (
	"encoding/binary"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/taskengine/taskengine/dashboard"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// stuffed is an API of which every response has something in every field: hostile text, if it is a text.
type stuffed struct{ isEmpty bool } // or nothing in any

// ServeHTTP implements [http.Handler].
func (s stuffed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	method := taskenginev1.File_taskengine_v1_taskengine_proto.Services().ByName("TaskService").Methods().ByName(protoreflect.Name(name))
	m := dynamicpb.NewMessage(method.Output())
	if !s.isEmpty {
		stuff(m, 0)
	}
	content, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	if !method.IsStreamingServer() {
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(content)
		return
	}
	w.Header().Set("Content-Type", "application/connect+proto")
	_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(content))), content...))
	_, _ = w.Write([]byte("\x02\x00\x00\x00\x02{}"))
}

// stuff sets all fields of a message.
func stuff(m protoreflect.Message, depth int) {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Timestamp":
		m.Set(m.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(1_800_000_000+int64(depth)))
		return
	case "google.protobuf.Duration":
		m.Set(m.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(100))
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case depth > 4:
		case f.IsMap():
			value := m.NewField(f).Map().NewValue()
			if f.MapValue().Message() == nil {
				value = single(f.MapValue())
			}
			m.Mutable(f).Map().Set(single(f.MapKey()).MapKey(), value)
		case f.IsList():
			list := m.Mutable(f).List()
			for range 2 {
				if f.Message() == nil {
					list.Append(single(f))
					continue
				}
				one := list.NewElement()
				stuff(one.Message(), depth+1)
				list.Append(one)
			}
		case f.Message() != nil:
			stuff(m.Mutable(f).Message(), depth+1)
		default:
			m.Set(f, single(f))
		}
	}
}

// single returns a value of a field that is no message.
func single(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.ToValidUTF8(hostile, "?"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(hostile))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(3)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(123456)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(3)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(123456)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1.5)
	}
	panic(f.FullName())
}

// allPages are paths of all pages.
var allPages = []string{
	"", "tasks", "tasks?q=a", "task/x", "task/x/edit", "task/x/lines?after=y", "errors", "errors?q=a", "bulk", "bulk/x", "bulk/new?q=a", "limits", "limit/x", "limit/x?value=y",
	"schedules", "schedule/x", "sources", "source/x", "slices/x", "slices/x/x", "nodes", "alerts", "plan", "plan?objective=x", "documents", "documents?prefix=a&after=b", "document?key=/x", "workflows", "workflow/x", "login",
}

func TestEveryPageShowsEveryFieldAsText(t *testing.T) {
	for _, isEmpty := range []bool{false, true} {
		d := dashboard.New(dashboard.Config{Base: "/ui/", API: stuffed{isEmpty}, Node: "n1", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		for _, path := range allPages {
			if isEmpty && strings.Contains(path, "/x") { // of something that there is
				continue
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, httptest.NewRequest("GET", "http://node/ui/"+path, nil))
			if w.Code != 200 && path != "login" {
				t.Errorf("%s gives %d: %.500s", path, w.Code, w.Body)
				continue
			}
			checkHarmless(t, path, w.Body.String())
		}
	}
}

// checkHarmless fails the test if a page has elements, attributes or characters that it should not have.
func checkHarmless(t *testing.T, path, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	if at := strings.IndexAny(page, "\u202e\u2066\x00\x1b"); at >= 0 {
		t.Errorf("%s: characters that change the text around them are in %q", path, page[max(0, at-100):min(len(page), at+50)])
	}
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			if n.Data == "img" || n.Data == "iframe" || n.Data == "style" {
				t.Errorf("%s has the element %s", path, n.Data)
			}
			for _, a := range n.Attr {
				isURL := a.Key == "href" || a.Key == "src" || a.Key == "action"
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || isURL && !strings.HasPrefix(a.Val, "/ui/") && a.Val != "#main" {
					t.Errorf("%s: %s has %s=%q", path, n.Data, a.Key, a.Val)
				}
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
}
