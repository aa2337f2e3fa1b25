package flash

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Card tells one card from another, as well as its reader can.
type Card struct {
	Serial string `json:"serial"` // of the card in an SD slot, of the reader on USB
	Size   int64  `json:"size"`
}

// journal is the memory of one card's writing, kept beside the tool and not on the card. A
// reader's serial does not tell two cards apart, so the card carries a stamp that only the
// journal knows: without it, nothing is taken as written.
type journal struct {
	path string // "" keeps none
	head journalHead
	done int64 // everything before is written and synced
}

type journalHead struct {
	Image string `json:"image"` // Manifest.ID
	Card  Card   `json:"card"`
	Stamp string `json:"stamp"` // 32 hexadecimal digits
}

type journalLine struct {
	Done int64 `json:"done"`
}

// maxJournal bounds a journal: a line for every 16 MiB of the largest image.
const maxJournal = 1 << 20

// openJournal finds the journal of an image and a card; without one it begins with nothing
// done and a stamp of its own.
func openJournal(folder, image string, card Card) (*journal, error) {
	j := &journal{head: journalHead{Image: image, Card: card, Stamp: newStamp()}}
	if folder == "" {
		return j, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("folder of the journals: %w", err)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", image, card.Serial, card.Size))
	j.path = filepath.Join(folder, hex.EncodeToString(key[:12])+".flash")
	text, err := readBounded(j.path, maxJournal)
	if errors.Is(err, os.ErrNotExist) {
		return j, nil
	} else if err != nil {
		return nil, fmt.Errorf("journal of an earlier try: %w (remove it to begin anew)", err)
	}
	j.read(text)
	return j, nil
}

// newStamp is random: rand.Read does not fail.
func newStamp() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// read takes what a journal says, up to the first line that was torn by a power cut.
func (j *journal) read(text []byte) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	var head journalHead
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil || head.Image != j.head.Image || head.Card != j.head.Card || len(head.Stamp) != len(j.head.Stamp) {
		return
	}
	j.head = head
	for lines.Scan() {
		var l journalLine
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Done < j.done {
			return
		}
		j.done = l.Done
	}
}

// start writes the journal anew, with what is done so far.
func (j *journal) start() error {
	if j.path == "" {
		return nil
	}
	head, err := json.Marshal(j.head)
	if err != nil {
		return err
	}
	err = writeFile(j.path, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\n{\"done\":%d}\n", head, j.done)
		return err
	})
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// note records that everything before an offset is written and synced.
func (j *journal) note(done int64) (err error) {
	if j.done = done; j.path == "" {
		return nil
	}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = fmt.Fprintf(f, "{\"done\":%d}\n", done)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// forget removes the journal: the card is whole, or must be begun anew.
func (j *journal) forget() error {
	if j.path == "" {
		return nil
	}
	if err := os.Remove(j.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// markAt is where the mark of an unfinished card lies: in the first unit, which holds the
// partition table and is written last. The sectors before stay zero, so nothing boots.
const markAt = sector

// mark is the sector that an unfinished card carries.
func (j *journal) mark() []byte {
	b := aligned(sector)
	copy(b, fmt.Sprintf("grattoir flash v1: not finished\nimage %s\nstamp %s\n", j.head.Image, j.head.Stamp))
	return b
}
