package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"time"
)

// file is a file, or a folder if its name ends with a slash, in an archive.
type file struct {
	name    string
	mode    int64
	owner   int // user and group
	content []byte
}

// sortFiles puts files in the order of their names.
func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// writeArchive writes files as a compressed archive. The bytes depend only on the arguments: every file has the date of the
// commit.
func writeArchive(w io.Writer, files []file, date time.Time, level int) error {
	z, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(z, files, date), z.Close())
}

// writeTar writes files as an archive.
func writeTar(w io.Writer, files []file, date time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)),
			Uid: f.owner, Gid: f.owner, ModTime: date, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}
