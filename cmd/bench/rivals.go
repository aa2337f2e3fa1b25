package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// rival is another way to keep a block in SQLite, built and asked in the same run.
type rival struct {
	name       string
	path       string
	bytes      int64
	built      time.Duration
	warm, cold times
	resident   int64 // pages of the process that opening and 2 000 look-ups added
	open       func() (ask func(ticket.Code) error, shut func() error, err error)
}

// rivals compares our file and look-up with a row for each ticket, which proves as much of
// a ticket but not that the file is whole, and a row for each winner, which also tells
// whoever copies it how many of a pack's codes win, and knows no forgery from a loser.
func (b *bench) rivals(ctx context.Context, work string, s *sealedBlock) error {
	h := s.block.Header
	winners := int64(0)
	for _, t := range h.Tiers {
		winners += t.Count
	}
	perTicket := &rival{name: "a row for each ticket", path: filepath.Join(work, "tickets.db")}
	perWinner := &rival{name: "a row for each winner", path: filepath.Join(work, "winners.db")}
	ours := &rival{name: "manifest: chunks of 500 tags", path: s.path}
	ours.open = func() (func(ticket.Code) error, func() error, error) {
		again, err := manifest.Open(ctx, s.path, s.keys)
		if err != nil {
			return nil, nil, err
		}
		return func(c ticket.Code) error { _, err := again.Open(ctx, c); return err }, again.Close, nil
	}
	perTicket.open = sqlRival(perTicket.path, "SELECT tag FROM tickets WHERE i = ?", func(c ticket.Code) any { i, _ := h.Index(c.Pack, c.Number); return i },
		func(c ticket.Code) { // the same trial of all tiers as ours
			i, _ := h.Index(c.Pack, c.Number)
			tagger := manifest.NewTagger(manifest.Pepper{}, c.Secret(), h.Block, i)
			for tier := range len(h.Tiers) + 1 {
				tagger.Tag(uint8(tier))
			}
		})
	perWinner.open = sqlRival(perWinner.path, "SELECT tier FROM winners WHERE code = ?", func(c ticket.Code) any { sum := sha256.Sum256([]byte(c.Digits())); return sum[:16] }, func(ticket.Code) {})
	var err error
	if ours.built, err = timeOf(func() error { return rivalFile(ctx, filepath.Join(work, "chunks.db"), chunkRows(h.Chunks())) }); err != nil {
		return err
	}
	if perTicket.built, err = timeOf(func() error { return rivalFile(ctx, perTicket.path, ticketRows(h.Tickets)) }); err != nil {
		return err
	}
	if perWinner.built, err = timeOf(func() error { return rivalFile(ctx, perWinner.path, winnerRows(winners)) }); err != nil {
		return err
	}
	all := []*rival{ours, perTicket, perWinner}
	for _, r := range all {
		info, err := os.Stat(r.path)
		if err != nil {
			return err
		}
		r.bytes = info.Size()
		if err := r.measure(s.codes, b.rounds); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	for _, r := range all {
		b.add(r.name+": file", fmt.Sprintf("%.1f MB", float64(r.bytes)/1e6), "manifest", fmt.Sprintf("%.2f", float64(r.bytes)/float64(ours.bytes)), "")
		b.add(r.name+": rows stored", r.built.Round(time.Millisecond).String(), "manifest", fmt.Sprintf("%.2f", float64(r.built)/float64(ours.built)), "")
		b.add(r.name+": look-up warm", r.warm.String(), "manifest", ratio(r.warm, ours.warm), "")
		b.add(r.name+": look-up cold", r.cold.String(), "manifest", ratio(r.cold, ours.cold), "")
		b.add(r.name+": memory added", fmt.Sprintf("%.1f MB", float64(r.resident)/1e6), "manifest", fmt.Sprintf("%.1f MB", float64(ours.resident)/1e6), "")
	}
	return os.WriteFile(filepath.Join(b.out, "rivals.svg"), []byte(rivalPlot(all)), 0o644)
}

// sqlRival looks a code up with one statement.
func sqlRival(path, query string, key func(ticket.Code) any, prove func(ticket.Code)) func() (func(ticket.Code) error, func() error, error) {
	return func() (func(ticket.Code) error, func() error, error) {
		db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&immutable=1&_cache_size=-64")
		if err != nil {
			return nil, nil, err
		}
		db.SetMaxOpenConns(1)
		st, err := db.Prepare(query)
		if err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
		return func(c ticket.Code) error {
			var found []byte
			if err := st.QueryRow(key(c)).Scan(&found); err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			prove(c)
			return nil
		}, db.Close, nil
	}
}

// measure asks warm, then cold: the file leaves the page cache before each question.
func (r *rival) measure(codes []ticket.Code, rounds int) error {
	before := residentBytes()
	ask, shut, err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = shut() }()
	for n := range 2000 {
		took, err := timeOf(func() error { return ask(codes[(n*7919)%len(codes)]) })
		if err != nil {
			return err
		}
		r.warm = append(r.warm, took)
	}
	r.resident = residentBytes() - before
	file, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer file.Close()
	for n := range rounds {
		if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		took, err := timeOf(func() error { return ask(codes[(n*104729)%len(codes)]) })
		if err != nil {
			return err
		}
		r.cold = append(r.cold, took)
	}
	return nil
}

// residentBytes is the process's resident memory, 0 where the system does not tell.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// rows makes a table and gives its rows one by one, as bytes that look random.
type rows struct {
	create, insert string
	n              int64
	row            func(i int64, noise []byte) (key, value any)
	width          int
}

func chunkRows(n int) rows {
	return rows{"CREATE TABLE chunks(chunk INTEGER PRIMARY KEY, sealed BLOB NOT NULL)", "INSERT INTO chunks VALUES(?, ?)", int64(n),
		func(i int64, noise []byte) (any, any) { return i, noise }, manifest.ChunkTickets * manifest.TagBytes}
}

func ticketRows(n int64) rows {
	return rows{"CREATE TABLE tickets(i INTEGER PRIMARY KEY, tag BLOB NOT NULL)", "INSERT INTO tickets VALUES(?, ?)", n,
		func(i int64, noise []byte) (any, any) { return i, noise }, manifest.TagBytes}
}

func winnerRows(n int64) rows {
	return rows{"CREATE TABLE winners(code BLOB PRIMARY KEY, tier INTEGER NOT NULL) WITHOUT ROWID", "INSERT INTO winners VALUES(?, ?)", n,
		func(i int64, noise []byte) (any, any) { return noise, i % 8 }, 16}
}

func rivalFile(ctx context.Context, path string, r rows) error {
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=OFF&_synchronous=OFF&_locking_mode=EXCLUSIVE")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	err = fillRival(ctx, db, r)
	return errors.Join(err, db.Close())
}

func fillRival(ctx context.Context, db *sql.DB, r rows) error {
	if _, err := db.ExecContext(ctx, r.create); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	st, err := tx.PrepareContext(ctx, r.insert)
	if err != nil {
		return err
	}
	noise := make([]byte, r.width)
	for i := range r.n {
		x := uint64(i)
		for k := 0; k+8 <= len(noise); k += 8 {
			x = (x+0x9e3779b97f4a7c15)*0xbf58476d1ce4e5b9 ^ x>>29
			binary.LittleEndian.PutUint64(noise[k:], x)
		}
		key, value := r.row(i, noise)
		if _, err := st.ExecContext(ctx, key, value); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// rivalPlot draws size and look-up times as bars, each as a multiple of ours.
func rivalPlot(all []*rival) string {
	var b strings.Builder
	const left, bar, height = 230, 460, 22
	measures := []struct {
		name string
		of   func(*rival) float64
	}{
		{"file size", func(r *rival) float64 { return float64(r.bytes) }},
		{"storing the rows", func(r *rival) float64 { return float64(r.built) }},
		{"look-up warm, median", func(r *rival) float64 { return float64(r.warm.median()) }},
		{"look-up warm, p99", func(r *rival) float64 { return float64(r.warm.at(0.99)) }},
		{"look-up cold, median", func(r *rival) float64 { return float64(r.cold.median()) }},
		{"look-up cold, p99", func(r *rival) float64 { return float64(r.cold.at(0.99)) }},
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", left+bar+90, 40+len(measures)*(height*len(all)+26))
	b.WriteString(`<text x="10" y="22" font-size="15">One block in SQLite: multiples of the manifest</text>` + "\n")
	y := 44
	for _, m := range measures {
		most := 0.0
		for _, r := range all {
			most = max(most, m.of(r)/m.of(all[0]))
		}
		fmt.Fprintf(&b, `<text x="10" y="%d" font-weight="bold">%s</text>`+"\n", y, m.name)
		for i, r := range all {
			times := m.of(r) / m.of(all[0])
			at := y + 6 + i*height
			fmt.Fprintf(&b, `<text x="20" y="%d">%s</text><rect x="%d" y="%d" width="%.0f" height="%d" fill="%s"/><text x="%.0f" y="%d">%.2f</text>`+"\n",
				at+15, r.name, left, at, times/most*bar, height-4, []string{"#0B3D91", "#7A3B00", "#3A3A3A"}[i], left+times/most*bar+6, at+15, times)
		}
		y += height*len(all) + 26
	}
	return b.String() + "</svg>\n"
}
