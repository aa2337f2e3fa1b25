package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// TestFortyBlocksOfNineMillionTicketsFitTheirMemory measures what make bench prints, on a
// file of the true shape: 18 000 chunks and leaves under a signed root. Its tags are noise
// but for those of the codes that are asked for, so that it is made in a moment.
func TestFortyBlocksOfNineMillionTicketsFitTheirMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED: this system does not tell a process's memory")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "bench") // without the race detector, which takes memory of its own
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shelf := filepath.Join(dir, "shelf")
	if err := os.Mkdir(shelf, 0o755); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(shelf, "00.manifest")
	key, codes := nineMillion(t, first)
	for n := range shelfBlocks - 1 {
		if err := os.Link(first, filepath.Join(shelf, fmt.Sprintf("%02d.manifest", n+1))); err != nil {
			t.Fatal(err)
		}
	}
	fresh := exec.Command(program, "shelf", shelf, "--key", key)
	fresh.Stdin = strings.NewReader(codes)
	var complaint bytes.Buffer
	fresh.Stderr = &complaint
	out, err := fresh.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	var m shelfMemory
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d blocks: %.1f MB after opening, %.1f MB after %d look-ups", shelfBlocks, float64(m.Opened)/1e6, float64(m.Asked)/1e6, shelfLookups)
	if m.Opened < 1_000_000 || m.Asked > shelfBound {
		t.Errorf("%+v, at most %d", m, shelfBound)
	}
}

// nineMillion writes a manifest and gives its public key and some of its codes.
func nineMillion(t *testing.T, path string) (public, codes string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	skey, public, err := note.GenerateKey(rand.Reader, "test")
	must(err)
	signer, err := note.NewSigner(skey)
	must(err)
	h := manifest.Header{MinReader: 1, Block: validate.BlockID{1}, Serial: 1, Game: "bingo", Name: "Bingo", Emission: "1", GameCode: "00399", Number: 1, Tickets: 9_000_000,
		FirstPack: 1, PackSize: 60, Layout: ticket.G40(), Currency: "EUR", Price: 1000, Tiers: []manifest.Tier{{Count: 1, Amount: 100}}}
	noise := mathrand.NewChaCha8([32]byte{1})
	tags := make([]byte, h.Tickets*manifest.TagBytes)
	_, _ = noise.Read(tags)
	var list strings.Builder
	for n := range int64(2000) {
		i := n * 4499
		c, err := ticket.Make(h.Layout, "399", h.FirstPack+uint32(i/60), uint16(i%60), fmt.Sprintf("%022d", noise.Uint64()))
		must(err)
		tag := manifest.NewTagger(manifest.Pepper{}, c.Secret(), h.Block, i).Tag(uint8(n % 2))
		copy(tags[i*manifest.TagBytes:], tag)
		fmt.Fprintln(&list, c.Digits())
	}
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=OFF&_synchronous=OFF&_locking_mode=EXCLUSIVE")
	must(err)
	db.SetMaxOpenConns(1)
	for _, s := range append([]string{fmt.Sprintf("PRAGMA application_id = %d", manifest.ApplicationID)}, manifest.Schema()...) {
		_, err := db.Exec(s)
		must(err)
	}
	tx, err := db.BeginTx(context.Background(), nil)
	must(err)
	var tree manifest.Tree
	for n := range h.Chunks() {
		chunk := tags[n*manifest.ChunkTickets*manifest.TagBytes : (n+1)*manifest.ChunkTickets*manifest.TagBytes]
		leaf := manifest.LeafHash(chunk)
		tree.Add(leaf)
		_, err := tx.Exec("INSERT INTO chunks VALUES(?, ?)", n, chunk)
		must(err)
		_, err = tx.Exec("INSERT INTO leaves VALUES(?, ?)", n, leaf[:])
		must(err)
	}
	h.Root = tree.Root()
	signed, err := note.Sign(&note.Note{Text: h.Text()}, signer)
	must(err)
	_, err = tx.Exec("INSERT INTO header VALUES(?)", string(signed))
	must(err)
	must(tx.Commit())
	must(db.Close())
	return public, list.String()
}
