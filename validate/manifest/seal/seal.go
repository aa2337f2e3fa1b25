// Package seal makes manifests: it reads every ticket of a block with its hidden code
// and prize, checks them against the prize table to the last ticket, and writes the
// signed file from which a terminal can prove answers and a thief learns nothing.
// Its input is every winner in clear, so it writes no temporary copy of it and no
// error of it shows a secret. It is linked into central only. Start at Seal.
package seal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	_ "github.com/mattn/go-sqlite3" // the driver of the file that is written
	"golang.org/x/mod/sumdb/note"

	"grattoir/validate"
	"grattoir/validate/game/rules"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// Order says which block is sealed and by whom. The pack size, first pack, first
// ticket and game code are found in the tickets themselves.
type Order struct {
	Game     string
	Name     string // the game's name for people
	GameCode string // "" accepts the one all tickets carry; otherwise they must carry this one
	Emission string
	Number   int // block number in the emission
	Serial   int // issue of this block's manifest, from 1
	// Reissue is the header of the issue before. It is required for a serial above 1,
	// and gives the block its id: claims are kept by block id, and a second id for the
	// same tickets would let them be paid again.
	Reissue  *manifest.Header
	Currency string
	Price    money.Amount
	Internet bool
	// Prizes gives the prize table for a block of this many tickets, and whether it is a
	// scaled one. It refuses a number it has no table for.
	Prizes func(tickets int64) (tiers []manifest.Tier, scaled bool, err error)
	Layout ticket.Layout
	Signer note.Signer
	// Pepper is the other half of the tags' key, for a layout whose secret has less than 60
	// bits and for no other. Whoever has it and the manifest can search for every winner.
	Pepper manifest.Pepper
	// Missing names the tickets that were never printed or were destroyed at the printer's.
	// They get random bytes in place of a tag, so that no code of them is authentic.
	Missing []Missing
	// Symbols is symbols.csv: every ticket's prize is recomputed from its symbols by
	// Rules before anything is sealed. Nil seals the prizes of tickets.csv as they are.
	Symbols io.Reader
	Rules   rules.Rules
	// Progress is called with how many tickets of a stage are done; may be nil.
	Progress func(stage string, done, total int64)
}

// Result is what was sealed.
type Result struct {
	Header manifest.Header
	SHA256 string // of the whole file, its name at central
	Size   int64  // bytes
}

// Seal reads tickets.csv, in any order of lines, and writes the manifest to path,
// whole or not at all. A path that exists is refused.
func Seal(ctx context.Context, tickets io.Reader, o Order, path string) (Result, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if _, err := os.Lstat(path); err == nil {
		return Result{}, fmt.Errorf("%s exists already: a sealed manifest is never changed, name another file", path)
	}
	if !o.Layout.Pays() {
		return Result{}, fmt.Errorf("layout %s has no secret: no prize can be proven with it", o.Layout.Name)
	}
	if weak := o.Layout.SecretBits() < manifest.MinSecretBits; weak != (o.Pepper != manifest.Pepper{}) {
		return Result{}, fmt.Errorf("layout %s has %d bits of secret: a pepper is needed below %d bits, and only there", o.Layout.Name, o.Layout.SecretBits(), manifest.MinSecretBits)
	}
	if old := o.Reissue; o.Serial > 1 && old == nil {
		return Result{}, fmt.Errorf("serial %d: name the issue before, whose block id it keeps", o.Serial)
	} else if old != nil && o.Serial <= old.Serial {
		return Result{}, fmt.Errorf("serial %d: the issue before has %d, a new one has more", o.Serial, old.Serial)
	}
	list, err := readTickets(ctx, tickets, o.Layout, o.Progress)
	if err != nil {
		return Result{}, err
	}
	block, err := list.arrange(o)
	if err != nil {
		return Result{}, err
	}
	if o.Symbols != nil {
		if err := block.checkSymbols(ctx, o); err != nil {
			return Result{}, err
		}
	}
	if err := block.name(o); err != nil {
		return Result{}, err
	}
	if err := block.write(ctx, o, path); err != nil {
		return Result{}, fmt.Errorf("manifest %s: %w", path, err)
	}
	sum, err := manifest.FileSHA256(path)
	if err != nil {
		return Result{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Result{}, err
	}
	return Result{Header: block.header, SHA256: sum, Size: info.Size()}, nil
}

// name gives the block its id: a new random one, or that of the issue before.
func (a *arranged) name(o Order) error {
	old := o.Reissue
	if old == nil {
		_, err := rand.Read(a.header.Block[:])
		a.commit(o.Pepper)
		return err
	}
	h := a.header
	same := old.Game == h.Game && old.Emission == h.Emission && old.Number == h.Number && old.GameCode == h.GameCode && old.Tickets == h.Tickets &&
		old.FirstPack == h.FirstPack && old.PackSize == h.PackSize && old.FirstTicket == h.FirstTicket && old.Layout.Equal(h.Layout)
	if !same {
		return fmt.Errorf("this is no new issue of block %v: game, emission, block number, packs and layout must be the same", old.Block)
	}
	a.header.Block = old.Block
	if a.commit(o.Pepper); a.header.Pepper != old.Pepper {
		return fmt.Errorf("block %v: the issue before has another pepper, which terminals hold already: give the same", old.Block)
	}
	return nil
}

// commit binds the pepper, where there is one, to the header.
func (a *arranged) commit(p manifest.Pepper) {
	if p != (manifest.Pepper{}) {
		a.header.Pepper = p.Commitment(a.header.Block)
	}
}

// arranged are the tickets of one block in the order of their index.
type arranged struct {
	header manifest.Header
	at     func(index int64) *record // nil for a missing ticket
	tier   []uint8                   // by index
}

// arrange finds the block's shape, checks that each ticket stands in it once and that
// the prizes agree exactly with the table.
func (l *ticketList) arrange(o Order) (*arranged, error) {
	if l.count == 0 {
		return nil, errors.New("tickets.csv holds no ticket")
	}
	game := l.game
	if o.GameCode != "" {
		want, err := ticket.PadGame(o.Layout, o.GameCode)
		if err != nil {
			return nil, err
		}
		if want != game {
			return nil, fmt.Errorf("the tickets carry game code %s, the emission has %s", game, want)
		}
	}
	owner, h, err := l.place(o.Missing)
	if err != nil {
		return nil, err
	}
	if o.Layout.SecretBits() >= manifest.MinSecretBits { // shorter ones meet by chance
		if err := l.secretsDiffer(); err != nil {
			return nil, err
		}
	}
	tiers, scaled, err := o.Prizes(h.Tickets)
	if err != nil {
		return nil, err
	}
	h.MinReader, h.Serial, h.Game, h.Name, h.Emission, h.GameCode = manifest.Version, o.Serial, o.Game, o.Name, o.Emission, game
	h.Number, h.Layout, h.Internet, h.Currency, h.Price, h.Tiers, h.Scaled = o.Number, o.Layout, o.Internet, o.Currency, o.Price, tiers, scaled
	if o.Pepper != (manifest.Pepper{}) {
		h.Pepper = o.Pepper.Commitment(h.Block) // name gives both their value
	}
	if err := h.Validate(); err != nil {
		return nil, err
	}
	a := &arranged{header: h, at: func(i int64) *record {
		if owner[i] == 0 {
			return nil
		}
		return l.record(int64(owner[i] - 1))
	}}
	a.tier, err = l.assignTiers(owner, tiers)
	return a, err
}

// place finds which record stands at each index: packs numbered without a gap from
// the lowest, all of one size, only the last shorter.
func (l *ticketList) place(allowed []Missing) ([]uint32, manifest.Header, error) {
	first := l.record(0)
	lowPack, highPack, lowNumber, highNumber := first.pack, first.pack, first.number, first.number
	for n := range l.count {
		r := l.record(n)
		lowPack, highPack = min(lowPack, r.pack), max(highPack, r.pack)
		lowNumber, highNumber = min(lowNumber, r.number), max(highNumber, r.number)
	}
	h := manifest.Header{Tickets: l.count, FirstPack: lowPack, PackSize: int(highNumber-lowNumber) + 1, FirstTicket: int(lowNumber)}
	if h.FirstTicket > 1 {
		return nil, h, fmt.Errorf("the lowest ticket number is %d: packs begin at ticket 0 or 1, so tickets are missing", lowNumber)
	}
	places := (int64(highPack-lowPack) + 1) * int64(h.PackSize)
	if places > 2*l.count+int64(h.PackSize)+countMissing(allowed, h.PackSize) {
		return nil, h, fmt.Errorf("%d tickets cannot fill the packs %d to %d of %d tickets: tickets are missing, or a pack number is wrong", l.count, lowPack, highPack, h.PackSize)
	}
	owner := make([]uint32, places) // record number + 1
	for n := range l.count {
		r := l.record(n)
		i := int64(r.pack-lowPack)*int64(h.PackSize) + int64(r.number-lowNumber)
		if owner[i] != 0 {
			return nil, h, fmt.Errorf("lines %d and %d: pack %d ticket %d stands twice", line(int64(owner[i]-1)), line(n), r.pack, r.number)
		}
		owner[i] = uint32(n + 1)
	}
	absent, err := absent(allowed, owner, h)
	if err != nil {
		return nil, h, err
	}
	if h.Tickets += int64(len(absent)); h.Tickets > int64(len(owner)) {
		return nil, h, fmt.Errorf("%d tickets with those named as missing, but the packs hold %d", h.Tickets, len(owner))
	}
	return owner[:h.Tickets], h, gaps(owner, h, absent)
}

// gaps names the tickets that tickets.csv lacks and nobody said were missing. Only the
// last pack may be shorter.
func gaps(owner []uint32, h manifest.Header, absent map[int64]bool) error {
	var names []string
	total := 0
	for i := range h.Tickets {
		if owner[i] == 0 && !absent[i] {
			if total++; len(names) < maxFaults {
				names = append(names, placeName(h, i))
			}
		}
	}
	if total == 0 {
		return nil
	}
	return fmt.Errorf("tickets.csv lacks %d tickets before the end of the block (packs of %d); name those that were never delivered with --allow-missing:\n  %s", total, h.PackSize, strings.Join(names, "\n  "))
}

// placeName names the ticket with an index.
func placeName(h manifest.Header, i int64) string {
	return fmt.Sprintf("pack %d ticket %d", int64(h.FirstPack)+i/int64(h.PackSize), int64(h.FirstTicket)+i%int64(h.PackSize))
}

// secretsDiffer refuses a secret that two tickets share: with secrets of 60 bits or
// more that is no chance but a printer's or a generator's fault.
func (l *ticketList) secretsDiffer() error {
	var seed [16]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return err
	}
	size := int64(1)
	for size < 2*l.count {
		size *= 2
	}
	slots := make([]uint32, size) // record number + 1
	k0, k1 := binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])
	for n := range l.count {
		s := &l.record(n).secret
		h := (binary.LittleEndian.Uint64(s[:])^k0)*0x9e3779b97f4a7c15 ^ (binary.LittleEndian.Uint64(s[8:])^k1)*0xc2b2ae3d27d4eb4f
		h ^= h >> 29
		for slot := int64(h) & (size - 1); ; slot = (slot + 1) & (size - 1) {
			if slots[slot] == 0 {
				slots[slot] = uint32(n + 1)
				break
			}
			if other := int64(slots[slot] - 1); l.record(other).secret == *s {
				return fmt.Errorf("lines %d and %d: two tickets share one secret; the block cannot be sealed", line(other), line(n))
			}
		}
	}
	return nil
}

// assignTiers gives each ticket the tier of its prize. Rows with the same amount are
// told apart by nothing on a ticket, so they are filled in the table's order.
func (l *ticketList) assignTiers(owner []uint32, tiers []manifest.Tier) ([]uint8, error) {
	rows := map[money.Amount][]int{}
	left := make([]int64, len(tiers))
	for t, row := range tiers {
		rows[row.Amount] = append(rows[row.Amount], t)
		left[t] = row.Count
	}
	tier := make([]uint8, len(owner))
	var unknown []string
	for i, n := range owner {
		if n == 0 {
			continue
		}
		prize := l.prizes[l.record(int64(n-1)).prize]
		if prize == 0 {
			continue
		}
		list, ok := rows[prize]
		if !ok {
			if len(unknown) < maxFaults {
				unknown = append(unknown, fmt.Sprintf("line %d: no row of the prize table pays %d minor units", line(int64(n-1)), prize))
			}
			continue
		}
		for len(list) > 1 && left[list[0]] == 0 {
			list = list[1:]
		}
		rows[prize] = list
		left[list[0]]--
		tier[i] = uint8(list[0] + 1)
	}
	var faults []string
	for t, n := range left {
		if n == 0 {
			continue
		}
		fault := fmt.Sprintf("tier %d (%d minor units): the table has %d tickets, tickets.csv has %d", t+1, tiers[t].Amount, tiers[t].Count, tiers[t].Count-n)
		if n < 0 {
			fault += fmt.Sprintf(", the first too many on line %d", l.tooMany(tiers, tiers[t].Amount))
		}
		faults = append(faults, fault)
	}
	if faults = append(faults, unknown...); len(faults) > 0 {
		return nil, fmt.Errorf("the tickets do not agree with the prize table for %d tickets:\n  %s", len(owner), strings.Join(faults, "\n  "))
	}
	return tier, nil
}

// tooMany is the line of the first ticket with a prize beyond those that the table has.
func (l *ticketList) tooMany(tiers []manifest.Tier, prize money.Amount) int64 {
	var left int64
	for _, t := range tiers {
		if t.Amount == prize {
			left += t.Count
		}
	}
	for n := range l.count {
		if l.prizes[l.record(n).prize] != prize {
			continue
		}
		if left--; left < 0 {
			return line(n)
		}
	}
	return 0
}

// write seals chunk by chunk into a new file beside path and renames it when it is
// whole and on disk.
func (a *arranged) write(ctx context.Context, o Order, path string) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".sealing-*")
	if err != nil {
		return fmt.Errorf("folder %s: %w", dir, errors.Unwrap(err))
	}
	temp, err := filepath.Abs(f.Name())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: temp,
		RawQuery: "_journal_mode=OFF&_synchronous=OFF&_locking_mode=EXCLUSIVE&_cache_size=-2000"}).String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	if err := a.fill(ctx, db, o); err != nil {
		_ = db.Close()
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	if err := os.Chmod(temp, 0o644); err != nil {
		return err
	}
	return publish(temp, path)
}

// publish makes the file durable under its name and never replaces one that exists.
func publish(temp, path string) error {
	if err := syncPath(temp); err != nil {
		return err
	}
	if err := os.Link(temp, path); err != nil {
		return err
	}
	if err := os.Remove(temp); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (a *arranged) fill(ctx context.Context, db *sql.DB, o Order) error {
	for _, s := range append([]string{"PRAGMA page_size = 4096", fmt.Sprintf("PRAGMA application_id = %d", manifest.ApplicationID),
		fmt.Sprintf("PRAGMA user_version = %d", manifest.Version)}, manifest.Schema()...) {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	leaves, err := a.fillChunks(ctx, tx, o)
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO leaves(chunk, hash) VALUES(?, ?)")
	if err != nil {
		return err
	}
	var tree manifest.Tree
	for n := range leaves {
		tree.Add(leaves[n])
		if _, err := insert.ExecContext(ctx, n, leaves[n][:]); err != nil {
			return err
		}
	}
	a.header.Root = tree.Root()
	signed, err := note.Sign(&note.Note{Text: a.header.Text()}, o.Signer)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	if _, err := manifest.ParseHeader(a.header.Text()); err != nil {
		return fmt.Errorf("the header would not be read back: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO header(note) VALUES(?)", string(signed)); err != nil {
		return err
	}
	return tx.Commit()
}

// fillChunks computes the chunks on all cores and writes them in order.
func (a *arranged) fillChunks(ctx context.Context, tx *sql.Tx, o Order) ([]manifest.Hash, error) {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO chunks(chunk, sealed) VALUES(?, ?)")
	if err != nil {
		return nil, err
	}
	h := a.header
	leaves := make([]manifest.Hash, h.Chunks())
	const span = 64 // chunks a worker takes at a time
	type part struct {
		first  int
		sealed [][]byte
	}
	jobs := make(chan chan part, runtime.GOMAXPROCS(0)+1) // results in order
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() {
		defer close(jobs)
		for first := 0; first < len(leaves); first += span {
			done := make(chan part, 1)
			select {
			case jobs <- done:
			case <-ctx.Done():
				return
			}
			workers.Go(func() {
				p := part{first: first}
				for c := first; c < min(first+span, len(leaves)); c++ {
					p.sealed = append(p.sealed, a.chunk(c, o.Pepper))
				}
				done <- p
			})
		}
	})
	for done := range jobs {
		p := <-done
		for k, sealed := range p.sealed {
			leaves[p.first+k] = manifest.LeafHash(sealed)
			if _, err := insert.ExecContext(ctx, p.first+k, sealed); err != nil {
				cancel()
				return nil, err
			}
		}
		o.Progress("seal", min(int64(p.first+span)*manifest.ChunkTickets, h.Tickets), h.Tickets)
	}
	return leaves, ctx.Err()
}

// chunk computes the tags of one chunk.
func (a *arranged) chunk(c int, pepper manifest.Pepper) []byte {
	first := int64(c) * manifest.ChunkTickets
	last := min(first+manifest.ChunkTickets, a.header.Tickets)
	sealed := make([]byte, 0, (last-first)*manifest.TagBytes)
	width := a.header.Layout.Width(ticket.Secret)
	var digits [maxSecret]byte
	for i := first; i < last; i++ {
		if a.at(i) == nil {
			var noise [manifest.TagBytes]byte
			_, _ = rand.Read(noise[:]) // never fails: crypto/rand ends the program instead
			sealed = append(sealed, noise[:]...)
			continue
		}
		secret := unpackSecret(a.at(i).secret, digits[:width])
		sealed = appendTag(sealed, pepper, secret, a.header.Block, uint32(i), a.tier[i])
	}
	return sealed
}

// appendTag is manifest's tag, computed with HMAC's two hashes on
// the stack: sealing makes millions of tags with a key each, where crypto/hmac would
// spend most of its time on allocations. A test holds it to manifest.Tagger.
func appendTag(dst []byte, pepper manifest.Pepper, secret []byte, block validate.BlockID, index uint32, tier uint8) []byte {
	const context = "grattoir seal v1"
	var inner [sha256.BlockSize + len(context) + 16 + 4 + 1]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	copy(inner[:], pepper[:])
	copy(inner[len(pepper):], secret)
	for i := range sha256.BlockSize {
		outer[i] = inner[i] ^ 0x5c
		inner[i] ^= 0x36
	}
	n := sha256.BlockSize + copy(inner[sha256.BlockSize:], context)
	n += copy(inner[n:], block[:])
	binary.BigEndian.PutUint32(inner[n:], index)
	inner[n+4] = tier
	sum := sha256.Sum256(inner[:])
	copy(outer[sha256.BlockSize:], sum[:])
	sum = sha256.Sum256(outer[:])
	return append(dst, sum[:manifest.TagBytes]...)
}
