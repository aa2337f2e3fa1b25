package seal_test

// A second implementation of FORMAT.md, written from its text. It shares no code with
// the first: of this module it imports nothing. It reads the committed vector, computes
// every byte that is hashed or signed from tickets.csv, and must get the file's.

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"
)

const vector = "../testdata/v1/"

// second is a manifest as the second implementation sees it.
type second struct {
	note   string
	chunks [][]byte
	leaves [][]byte
}

func readSecond(t *testing.T, path string) (s second) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&immutable=1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT note FROM header").Scan(&s.note); err != nil {
		t.Fatal(err)
	}
	for query, into := range map[string]*[][]byte{"SELECT sealed FROM chunks ORDER BY chunk": &s.chunks, "SELECT hash FROM leaves ORDER BY chunk": &s.leaves} {
		rows, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var b []byte
			if err := rows.Scan(&b); err != nil {
				t.Fatal(err)
			}
			*into = append(*into, b)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// signedText checks the note's one signature: "— name base64(4 bytes of key hash, then
// Ed25519 over the text)"; the key hash is the beginning of SHA-256(name, LF, key data).
func (s second) signedText(t *testing.T, public string) string {
	t.Helper()
	text, signature, ok := strings.Cut(s.note, "\n\n")
	text += "\n"
	parts := strings.SplitN(strings.TrimSpace(public), "+", 3) // name+hash+data
	data, err := base64.StdEncoding.DecodeString(parts[2])
	if !ok || err != nil || len(data) != 33 || data[0] != 1 {
		t.Fatalf("note or key: %v", err)
	}
	hash := sha256.Sum256(append([]byte(parts[0]+"\n"), data...))
	words := strings.Fields(signature)
	sig, err := base64.StdEncoding.DecodeString(words[2])
	if err != nil || words[0] != "—" || words[1] != parts[0] || !bytes.Equal(sig[:4], hash[:4]) || hex.EncodeToString(hash[:4]) != parts[1] {
		t.Fatalf("signature line %q: %v", words, err)
	}
	if !ed25519.Verify(data[1:], []byte(text), sig[4:]) {
		t.Fatal("the signature does not verify")
	}
	return text
}

// secondTree is the root of RFC 6962 by its recursive definition.
func secondTree(leaves [][]byte) []byte {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	sum := sha256.Sum256(bytes.Join([][]byte{{1}, secondTree(leaves[:k]), secondTree(leaves[k:])}, nil))
	return sum[:]
}

func secondTag(secret string, block []byte, index uint32, tier byte) []byte {
	mac := hmac.New(sha256.New, append(make([]byte, 32), secret...))
	mac.Write([]byte("grattoir seal v1"))
	mac.Write(block)
	mac.Write(binary.BigEndian.AppendUint32(nil, index))
	mac.Write([]byte{tier})
	return mac.Sum(nil)[:8]
}

// secondTicket takes a g40 code apart by the widths of its layout line: 1 fixed, 5 game,
// 7 pack, 3 ticket, 22 secret, 2 check; the whole is 1 modulo 97.
func secondTicket(t *testing.T, code string) (pack, number int, secret string) {
	t.Helper()
	n, ok := new(big.Int).SetString(code, 10)
	if !ok || len(code) != 40 || code[0] != '1' || n.Mod(n, big.NewInt(97)).Int64() != 1 {
		t.Fatal("a code of the vector is no g40 code")
	}
	pack, _ = strconv.Atoi(code[6:13])
	number, _ = strconv.Atoi(code[13:16])
	return pack, number, code[16:38]
}

func TestASecondImplementationMakesTheSameBytes(t *testing.T) {
	public, err := os.ReadFile(vector + "lottery.pub")
	if err != nil {
		t.Fatal(err)
	}
	csv, err := os.ReadFile(vector + "tickets.csv")
	if err != nil {
		t.Fatal(err)
	}
	s := readSecond(t, vector+"essai.manifest")
	text := s.signedText(t, string(public))
	var block []byte
	for _, line := range strings.Split(text, "\n") {
		if id, ok := strings.CutPrefix(line, "block-id "); ok {
			if block, err = hex.DecodeString(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	prizes := []int{100000, 500, 200}
	tags := map[int][]byte{}
	for _, line := range strings.Split(strings.TrimSpace(string(csv)), "\n")[1:] {
		code, amount, _ := strings.Cut(line, ",")
		pack, number, secret := secondTicket(t, code)
		tier := 0
		for i, p := range prizes {
			if amount == strconv.Itoa(p) {
				tier = i + 1
			}
		}
		i := (pack-7)*60 + number - 1
		tags[i] = secondTag(secret, block, uint32(i), byte(tier))
	}
	var leaves [][]byte
	for c := 0; c*500 < len(tags); c++ {
		var chunk []byte
		for i := c * 500; i < min((c+1)*500, len(tags)); i++ {
			chunk = append(chunk, tags[i]...)
		}
		leaf := sha256.Sum256(append([]byte{0}, chunk...))
		leaves = append(leaves, leaf[:])
		if c >= len(s.chunks) || !bytes.Equal(chunk, s.chunks[c]) || !bytes.Equal(leaf[:], s.leaves[c]) {
			t.Fatalf("chunk %d or its leaf differs", c)
		}
	}
	if len(leaves) != len(s.leaves) || len(s.chunks) != len(s.leaves) {
		t.Errorf("%d chunks, %d leaves, want %d", len(s.chunks), len(s.leaves), len(leaves))
	}
	want := fmt.Sprintf(`grattoir manifest v1
min-reader 1
block-id %x
serial 1
game essai
name Essai n° 1
emission 2
game-code 00399
block 3
tickets 1230
first-pack 7
pack-size 60
first-ticket 1
layout g40 fixed=1 game:5 pack:7 ticket:3 secret:22 check:2 check=mod97-10 aim=dQ
pepper no
channel ticket
currency EUR
price 200
tiers 3
tier 1 1 100000
tier 2 40 500
tier 3 160 200
scaled yes
tag-bytes 8
chunk-tickets 500
root %x
`, block, secondTree(leaves))
	if text != want {
		t.Errorf("header\n%s\nwant\n%s", text, want)
	}
}
