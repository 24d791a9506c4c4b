package server_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

// backedUp is a store. Its backup has these files and then an error.
type backedUp struct {
	storage.Store
	files []string
	err   error
}

func (s backedUp) Backup(_ context.Context, file func(string, int64, io.Reader) error) error {
	for _, text := range s.files {
		if err := file("f"+text[:1], int64(len(text)), strings.NewReader(text)); err != nil {
			return err
		}
	}
	return s.err
}

// askForBackup asks a listener for a backup and returns the files, with their names.
func askForBackup(t *testing.T, b *server.Backups) (code int, store string, files []string, err error) {
	t.Helper()
	l := listen(t, server.NewAdmin(server.AdminConfig{Health: new(server.Health), Metrics: server.NewMetrics(nil, server.Build{}), Backups: b}), true)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := httpClient(t, false).Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return res.StatusCode, "", nil, nil
	}
	err = server.ReadBackup(res.Body, func(name string, size int64, content io.Reader) error {
		text, err := io.ReadAll(content)
		files = append(files, name+"="+string(text))
		return err
	})
	return res.StatusCode, res.Header.Get(server.StoreHeader), files, err
}

func TestTheAdminListenerServesBackups(t *testing.T) {
	b := new(server.Backups)
	if code, _, _, err := askForBackup(t, b); code != http.StatusServiceUnavailable || err != nil {
		t.Errorf("while the node starts, the answer is %d, %v", code, err)
	}
	b.Offer("", memory.New())
	if code, _, _, err := askForBackup(t, b); code != http.StatusNotImplemented || err != nil {
		t.Errorf("for a store that has none, the answer is %d, %v", code, err)
	}
	large := "2" + strings.Repeat("x", 1<<20)
	b.Offer("/data", backedUp{files: []string{"1", large, "3 "}})
	code, store, files, err := askForBackup(t, b)
	if err != nil || code != http.StatusOK || store != "/data" || strings.Join(files, " ") != "f1=1 f2="+large+" f3=3 " {
		t.Errorf("the answer is %d %s, %d files, %v", code, store, len(files), err)
	}
	b.Offer("/data", backedUp{files: []string{"1", large}, err: errors.New("the disk fails")})
	if _, _, _, err := askForBackup(t, b); err == nil {
		t.Error("a backup that was broken off is taken for a whole one")
	}
}

func TestAnIncompleteBackupIsRefused(t *testing.T) {
	var whole bytes.Buffer
	l := listen(t, server.NewAdmin(server.AdminConfig{
		Health: new(server.Health), Metrics: server.NewMetrics(nil, server.Build{}), Backups: offering(backedUp{files: []string{"1 one", "2 two"}}),
	}), true)
	res, err := httpClient(t, false).Post("http://"+l.Addr().String()+"/backup", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := whole.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) error {
		return server.ReadBackup(bytes.NewReader(b), func(_ string, _ int64, content io.Reader) error {
			_, err := io.ReadAll(content)
			return err
		})
	}
	if err := read(whole.Bytes()); err != nil {
		t.Fatal(err)
	}
	// 512 bytes are a head, or the content of a small file; the last head says that it is whole.
	for cut := 0; cut < 5*512; cut += 64 {
		if err := read(whole.Bytes()[:cut]); err == nil {
			t.Errorf("%d bytes of it are taken for all", cut)
		}
	}
}

func TestFilesOfABackupStayInItsDirectory(t *testing.T) {
	for _, name := range []string{"store/../x", "store/..", "store/a/b", "store/", `store/a\b`, "other"} {
		var b bytes.Buffer
		archive := tar.NewWriter(&b)
		if err := errors.Join(archive.WriteHeader(&tar.Header{Name: name}), archive.WriteHeader(&tar.Header{Name: "complete"}), archive.Close()); err != nil {
			t.Fatal(err)
		}
		err := server.ReadBackup(&b, func(string, int64, io.Reader) error { return errors.New("it was handed over") })
		if err == nil || !strings.Contains(err.Error(), "not part of a store") {
			t.Errorf("a file of the name %q gives %v", name, err)
		}
	}
}

func offering(s storage.Store) *server.Backups {
	b := new(server.Backups)
	b.Offer("", s)
	return b
}
