package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestTextIsTextInJSON(t *testing.T) {
	n := newNode(t)
	post := func(method, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.api.Addr().String()+"/taskengine.v1.TaskService/"+method, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := httpClient(t, false).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s answers %d, %s, %v", method, res.StatusCode, text, err)
		}
		return string(text)
	}
	for payload, want := range map[string]string{`{"n": 1}`: `"payloadText":"{\"n\": 1}"`, "grün": `"payloadText":"grün"`, "\xff": `"payloadText":""`} {
		var added struct{ Receipts []struct{ ID string } }
		if err := json.Unmarshal([]byte(post("Submit", fmt.Sprintf(`{"tasks":[{"type":"made-up","payload":%q}]}`, base64.StdEncoding.EncodeToString([]byte(payload))))), &added); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(post("Get", fmt.Sprintf(`{"id":%q}`, added.Receipts[0].ID)), `": "`, `":"`); !strings.Contains(got, want) || !strings.Contains(got, `"resultText":""`) {
			t.Errorf("%q is shown as %s", payload, got)
		}
	}
	if got := post("ListTypes", `{}`); !strings.Contains(got, "made-up") {
		t.Errorf("the types are %s", got)
	}
}
