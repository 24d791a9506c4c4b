package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	perPage = 20
	perRead = 25
	perFile = 100
)

// shop has pages with numbers: GET /shop/orders?changed_from=TIME&changed_to=TIME&page=N. When an order changes while somebody reads,
// it is no longer in the list, and the orders behind it move forward: the first one of a page is then the last one of the page
// before.
func shop(b *book, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, err := time.Parse(time.RFC3339Nano, q.Get("changed_from"))
	to, err2 := time.Parse(time.RFC3339Nano, q.Get("changed_to"))
	page, err3 := strconv.Atoi(q.Get("page"))
	if err != nil || err2 != nil || err3 != nil || page < 1 {
		http.Error(w, "changed_from, changed_to or page is wrong", http.StatusBadRequest)
		return
	}
	all := b.between(time.Now(), from, to)
	begin := min((page-1)*perPage, len(all))
	answer(w, map[string]any{"pages": (len(all) + perPage - 1) / perPage, "orders": all[begin:min(begin+perPage, len(all))]})
}

// market has a cursor: GET /market/v2/orders?since=MS&until=MS&after=CURSOR. The last order of an answer is the first one of the next.
func market(b *book, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, err := strconv.ParseInt(q.Get("since"), 10, 64)
	until, err2 := strconv.ParseInt(q.Get("until"), 10, 64)
	after, err3 := base64.URLEncoding.DecodeString(q.Get("after"))
	if err != nil || err2 != nil || err3 != nil {
		http.Error(w, "since, until or after is wrong", http.StatusBadRequest)
		return
	}
	all := b.between(time.Now(), time.UnixMilli(since), time.UnixMilli(until))
	if at, number, ok := strings.Cut(string(after), " "); ok {
		ms, _ := strconv.ParseInt(at, 10, 64)
		begin, _ := slices.BinarySearchFunc(all, order{Changed: time.UnixMilli(ms), Number: number}, compare)
		all = all[begin:]
	}
	type entry struct {
		ID      string `json:"id"`
		Updated int64  `json:"updated"`
		State   string `json:"state"`
		Total   string `json:"total"`
	}
	list := []entry{}
	for _, o := range all[:min(perRead, len(all))] {
		list = append(list, entry{o.Number, o.Changed.UnixMilli(), o.Status, fmt.Sprintf("%d.%02d", o.Cents/100, o.Cents%100)})
	}
	cursor := ""
	if len(all) > perRead {
		last := list[len(list)-1]
		cursor = base64.URLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.Updated, last.ID))
	}
	answer(w, map[string]any{"data": list, "next": cursor})
}

// depot has a file for each window of time: POST /depot/export with {"from": TIME, "to": TIME} is answered with lines of
// NUMBER,TIME,STATUS,CENTS and the line "end". A window with too many orders is refused.
func depot(b *book, w http.ResponseWriter, r *http.Request) {
	var window struct{ From, To time.Time }
	if err := json.NewDecoder(r.Body).Decode(&window); err != nil {
		http.Error(w, "the window is wrong", http.StatusBadRequest)
		return
	}
	all := b.between(time.Now(), window.From, window.To)
	if len(all) > perFile {
		http.Error(w, fmt.Sprintf("%d orders are too many for one file, which has at most %d; ask for less time", len(all), perFile), http.StatusUnprocessableEntity)
		return
	}
	for _, o := range all {
		fmt.Fprintf(w, "%s,%s,%s,%d\n", o.Number, o.Changed.Format(time.RFC3339Nano), o.Status, o.Cents)
	}
	fmt.Fprintln(w, "end")
}
