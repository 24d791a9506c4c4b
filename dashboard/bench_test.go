package dashboard_test

import (
	"net/http/httptest"
	"testing"
)

// BenchmarkPage measures the refresh of a page of which the answers of the API are too old to be shared.
func BenchmarkPage(b *testing.B) {
	n := newNode(b)
	id := n.add(b, requestOf("fail", `{"n": 1}`))
	n.settled(b, id, failedState)
	for _, path := range []string{"", "tasks", "task/" + id, "errors"} {
		name := path
		if len(name) > 10 {
			name = "task"
		}
		b.Run("page="+name, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				n.api.ServeHTTP(w, httptest.NewRequest("GET", "/ui/"+path, nil))
				if w.Code != 200 {
					b.Fatalf("it gives %d", w.Code)
				}
			}
		})
	}
}
