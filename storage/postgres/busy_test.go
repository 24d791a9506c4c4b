//go:build !race

package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/storage"
)

// A transaction that the server has rolled back because of others, or because it took too long, may be repeated. One
// that lost its session is part of an outage.
func TestWhatIsRolledBackBecauseOfOthersIsBusy(t *testing.T) {
	s := new(Store)
	for _, code := range []string{"55P03", "40P01", "40001", "55006", "57014"} {
		err := s.failed("swap", &pgconn.PgError{Code: code, SeverityUnlocalized: "ERROR"})
		if !errors.Is(err, storage.ErrBusy) || !errors.Is(err, storage.ErrRefused) || storage.IsOutage(err) || !strings.Contains(err.Error(), "nothing of this was written") {
			t.Errorf("%s: %v", code, err)
		}
	}
	for _, code := range []string{"22001", "23514", "42P01"} {
		err := s.failed("swap", &pgconn.PgError{Code: code, SeverityUnlocalized: "ERROR"})
		if errors.Is(err, storage.ErrBusy) || !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: %v", code, err)
		}
	}
	for _, code := range []string{"25P03", "25P04", "57P01"} {
		err := s.failed("swap", &pgconn.PgError{Code: code, SeverityUnlocalized: "FATAL"})
		if errors.Is(err, storage.ErrRefused) || !storage.IsOutage(err) {
			t.Errorf("%s: %v", code, err)
		}
	}
}
