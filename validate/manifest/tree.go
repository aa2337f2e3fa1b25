package manifest

import "crypto/sha256"

// The tree is that of RFC 6962, section 2.1: a leaf is SHA-256(0x00 || chunk), a node
// SHA-256(0x01 || left || right), and a range splits at the largest power of two below
// its length.

// Hash is a node of the tree.
type Hash = [sha256.Size]byte

// LeafHash is the leaf of a chunk.
func LeafHash(chunk []byte) Hash {
	var buf [1 + ChunkTickets*TagBytes]byte
	return sha256.Sum256(append(buf[:1], chunk...)) // buf[0] is 0x00
}

// Tree takes leaves in order and gives their root. It keeps no leaf, only the roots of the
// full subtrees so far, largest first. The zero Tree is empty.
type Tree struct {
	leaves int
	full   []Hash
}

// Add takes the next leaf.
func (t *Tree) Add(leaf Hash) {
	t.leaves++
	t.full = append(t.full, leaf)
	for n := t.leaves; n%2 == 0; n /= 2 { // two subtrees of one size stand at the end
		last := len(t.full) - 1
		t.full = append(t.full[:last-1], node(t.full[last-1], t.full[last]))
	}
}

// Root is the root over the leaves so far; of none it is SHA-256 of nothing.
func (t *Tree) Root() Hash {
	if t.leaves == 0 {
		return sha256.Sum256(nil)
	}
	last := len(t.full) - 1
	root := t.full[last]
	for n := last - 1; n >= 0; n-- {
		root = node(t.full[n], root)
	}
	return root
}

func node(left, right Hash) Hash {
	var buf [1 + 2*sha256.Size]byte
	buf[0] = 0x01
	copy(buf[1:], left[:])
	copy(buf[1+sha256.Size:], right[:])
	return sha256.Sum256(buf[:])
}

// proof is what an open block keeps of a chunk's leaf, once all leaves together have made
// the signed root: its first half. To pass another chunk for a proven one takes a second
// preimage of these 16 bytes, 2^128 trials. They are 288 kB for 9 000 000 tickets, where
// whole leaves would be 576 kB; keeping only roots over 16 leaves (36 kB) meant reading
// those leaves again at each look-up, which took longer than all the rest of it.
type proof [proofBytes]byte

const proofBytes = 16
