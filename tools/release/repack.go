package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"time"
)

// The tools of other languages compress with the library that the machine has, and note users and times. So the files are packed again, and their bytes
// depend on this program alone.

// repackTar writes the files of a compressed archive again, in the order of their names and without folders.
func repackTar(w io.Writer, archive []byte, date time.Time) error {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	var files []file
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		files = append(files, file{name: h.Name, mode: plainMode(h.Mode), content: content})
	}
	sortFiles(files)
	return writeArchive(w, files, date, gzip.BestCompression)
}

// repackZip writes the files of a zip archive again, in their order and without folders. The first file matters in archives of Java.
func repackZip(w io.Writer, archive []byte, date time.Time) error {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	var files []file
	for _, f := range r.File {
		if f.FileInfo().IsDir() {
			continue
		}
		from, err := f.Open()
		if err != nil {
			return err
		}
		content, err := io.ReadAll(from)
		if err := errors.Join(err, from.Close()); err != nil {
			return err
		}
		files = append(files, file{name: f.Name, mode: 0o644, content: content})
	}
	return writeZip(w, files, date)
}

// writeZip writes files as a zip archive.
func writeZip(w io.Writer, files []file, date time.Time) error {
	out := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		h.SetMode(fs.FileMode(f.mode))
		to, err := out.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := to.Write(f.content); err != nil {
			return err
		}
	}
	return out.Close()
}

// plainMode is the mode of a file for everyone: programs stay programs.
func plainMode(mode int64) int64 {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}
