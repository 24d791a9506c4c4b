package doctor

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/backup"
)

// examineBackup reports the files of a backup that have changed. It returns nil for a folder that
// is no backup.
func examineBackup(ctx context.Context, found *Findings, folder string) (*backup.Manifest, error) {
	const why = "tasks of the backup may be missing or changed, and no other check finds that"
	m, err := backup.ReadManifest(folder)
	if errors.Is(err, backup.ErrNoManifest) {
		return nil, nil
	}
	if err != nil {
		found.add(Error, "backup", err.Error(), why, "use another backup")
		return nil, nil
	}
	wrong, err := m.Verify(ctx, folder)
	if err != nil {
		return nil, err
	}
	for _, err := range wrong {
		found.add(Error, "backup", err.Error(), why,
			"use another backup; if a node has used this folder since, it is no backup any more: remove its "+backup.ManifestName)
	}
	if len(wrong) == 0 {
		found.info("backup", "of %v, with %d tasks: its %d files are as they were written", m.TakenAt, m.Tasks, len(m.Files))
	}
	return m, nil
}
