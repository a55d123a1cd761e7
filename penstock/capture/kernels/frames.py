"""Where the rows are: WAL messages and COPY rows framed, no value looked at.

A row is the range of bytes of its tuple, which `columns.py` takes apart. Every read is inside its own message: bytes
that do not follow the protocol give MALFORMED, never a wrong row.
"""

from __future__ import annotations

import numba as nb

from penstock.capture.kernels.big_endian import byte as _byte
from penstock.capture.kernels.big_endian import int16 as _int16
from penstock.capture.kernels.big_endian import int32 as _int32
from penstock.capture.kernels.big_endian import int64 as _int64
from penstock.capture.kernels.big_endian import uint32 as _uint32
from penstock.compiled import fetch, kernel

OK, NO_ROOM, MALFORMED = 0, 1, 2

# How messages are wrapped: in CopyData of a WAL sender, or as the only field of rows of a binary COPY.
STREAM, PULL = 0, 1

# Columns of the arrays the WAL kernel writes. A row's fields lie from FIRST up to END (FIRST is -1 for a row without
# values, a truncate), and IMAGE says what they are. A new row has at OLD the fields of its old one, or -1. TOP and SUB
# are transaction ids of rows whose commit may come after those of others (streamed or prepared); TOP is 0 for a row
# between an ordinary Begin and its Commit.
REL, OP, WEIGHT, FIRST, END, IMAGE, OLD, COUNT, SEQ, TOP, SUB, ROW_WIDTH = range(12)
# All columns; the key alone, where all others come as NULL; or those of the new row, which knows only the key of its
# old one.
WHOLE, KEY, BORROWED = 0, 1, 2
TXN_ROWS, TXN_LSN, TXN_TS, TXN_XID, TXN_WIDTH = 0, 1, 2, 3, 4
COPIED_WIDTH = COUNT - FIRST + 1
CTL_START, CTL_END, CTL_TXNS, CTL_ROWS, CTL_TOP, CTL_WIDTH = 0, 1, 2, 3, 4, 5
# What lives on from one chunk to the next. PASSED is the end of the log that is known already: an ordinary transaction
# that committed before it is skipped.
IN_TXN, NEXT_SEQ, XID, TS, KEEPALIVE_END, KEEPALIVE_TS, REPLY_ASKED, PASSED, NEXT_STREAMED_SEQ, STATE_WIDTH = range(10)
_NONE, _ORDINARY, _SKIPPED, _STREAMED, _PREPARED = 0, 1, 2, 3, 4

_B, _C, _D, _E, _I, _K, _N, _O, _P, _S, _T, _U = (ord(c) for c in "BCDEIKNOPSTU")
_b, _k, _n, _t, _u, _w = (ord(c) for c in "bkntuw")
_XLOG_HEADER = 25  # 'w', start LSN, end LSN, server time
_COPY_HEADER = 6  # field count, length
_AHEAD = 8  # messages: a scan takes less time than what it reads takes to come from memory


@kernel("int64(uint8[::1], int64, int64, int64)")
def _passed_fields(data, at, end, count):  # type: ignore[no-untyped-def]
    """Where `count` fields of a tuple end, or -1."""
    for _ in range(count):
        if at >= end:
            return -1
        kind = _byte(data, at)
        at += 1
        if kind in (_b, _t):
            if at + 4 > end:
                return -1
            length = _int32(data, at)
            at += 4 + length
            if length < 0 or at > end:
                return -1
        elif kind not in (_n, _u):
            return -1
    return at


@kernel("void(int64[:,::1], int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64[::1])")
def _row(rows, at, relation, op, weight, first, end, count, image, old, sub, state):  # type: ignore[no-untyped-def]
    at = nb.uint64(at)
    rows[at, REL] = relation
    rows[at, OP] = op
    rows[at, WEIGHT] = weight
    rows[at, FIRST] = first
    rows[at, END] = end
    rows[at, COUNT] = count
    rows[at, IMAGE] = image
    rows[at, OLD] = old
    if state[IN_TXN] == _ORDINARY:
        rows[at, TOP], rows[at, SUB] = 0, 0
        rows[at, SEQ] = state[NEXT_SEQ]
        state[NEXT_SEQ] += 1
    else:  # blocks of one transaction lie apart: the order over all of them is its order too
        rows[at, TOP], rows[at, SUB] = state[XID], sub
        rows[at, SEQ] = state[NEXT_STREAMED_SEQ]
        state[NEXT_STREAMED_SEQ] += 1


@kernel("Tuple((int64, int64))(uint8[::1], int64, int64, int64, int64, int64[:,::1], int64, int64[::1])")
def _change(data, kind, at, end, sub, rows, row, state):  # type: ignore[no-untyped-def]
    """One Insert, Update or Delete: (rows, code). An update is its old row, then its new one.

    The last tuple of a message reaches up to its end. Whether its fields do is seen when they are taken apart.
    """
    if at + 7 > end:
        return row, MALFORMED
    relation, part, count = _uint32(data, at), _byte(data, at + 4), _int16(data, at + 5)
    at += 7
    old, before = nb.int64(-1), row
    if count < 0:
        return before, MALFORMED
    if kind != _I and part in (_K, _O):
        image = nb.int64(KEY) if part == _K else nb.int64(WHOLE)
        if kind == _D:
            _row(rows, row, relation, _D, -1, at, end, count, image, -1, sub, state)
            return row + 1, OK
        old = at
        at = _passed_fields(data, at, end, count)
        if at < 0 or at + 3 > end or _int16(data, at + 1) != count:
            return before, MALFORMED
        _row(rows, row, relation, _U, -1, old, at, count, image, -1, sub, state)
        row += 1
        part = _byte(data, at)
        at += 3
    if part != _N or kind == _D:
        return before, MALFORMED
    if kind == _U and old < 0:  # the key did not change: it is read from the new row
        _row(rows, row, relation, _U, -1, at, end, count, BORROWED, -1, sub, state)
        row += 1
    _row(rows, row, relation, kind, 1, at, end, count, WHOLE, old, sub, state)
    return row + 1, OK


@kernel("Tuple((int64, int64))(uint8[::1], int64, int64, int64, int64[:,::1], int64, int64[::1])")
def _truncate(data, at, end, sub, rows, row, state):  # type: ignore[no-untyped-def]
    """One Truncate, a row without values per relation: (rows, code)."""
    if end - at < 5 or end - at != 5 + 4 * _int32(data, at):
        return row, MALFORMED
    relations = _int32(data, at)
    if row + relations > rows.shape[0]:
        return row, NO_ROOM
    for i in range(relations):
        _row(rows, row, _uint32(data, at + 5 + 4 * i), _T, 0, -1, -1, 0, WHOLE, -1, sub, state)
        row += 1
    return row, OK


@kernel("int64(uint8[::1], int64, int64, int64, int64[::1])")
def _boundary(data, kind, at, end, state):  # type: ignore[no-untyped-def]
    """Begin, Begin Prepare, Prepare, Stream Start and Stop open and close what rows belong to.

    A Prepare may come alone: PostgreSQL 18 begins no prepared transaction that changes nothing, but ends it.
    """
    inside = state[IN_TXN]
    if kind == _P and inside == _NONE:
        return OK
    if kind in (_E, _P):
        if inside != (_STREAMED if kind == _E else _PREPARED):
            return MALFORMED
        state[IN_TXN] = _NONE
        return OK
    if inside != _NONE:
        return MALFORMED
    if kind == _B:
        if end - at != 20:
            return MALFORMED
        state[IN_TXN] = _SKIPPED if _int64(data, at) < state[PASSED] else _ORDINARY
        state[NEXT_SEQ] = 0
        state[TS], state[XID] = _int64(data, at + 8), _uint32(data, at + 16)
    elif kind == _b:
        if end - at < 29:
            return MALFORMED
        state[IN_TXN], state[XID] = _PREPARED, _uint32(data, at + 24)
    else:
        if end - at != 5:
            return MALFORMED
        state[IN_TXN], state[XID] = _STREAMED, _uint32(data, at)
    return OK


@kernel(
    "Tuple((int64, int64, int64, int64))(uint8[::1], int64, int64[::1], int64, int64, int64[::1],"
    " int64[:,::1], int64[:,::1], int64[:,::1])"
)
def scan_wal(data, start, ends, messages, framing, state, rows, transactions, controls):  # type: ignore[no-untyped-def]
    """All messages of a chunk, of which the first begins at `start`: (rows, transactions, controls, code).

    Changes become rows, Commits close transactions, keepalives go into `state`; Relation and every other message is
    listed in `controls` for Python. With NO_ROOM the caller makes the arrays larger and scans the chunk again.
    """
    row, txn, control, here = 0, 0, 0, nb.int64(data.ctypes.data)
    for message in range(messages):
        end = ends[message]
        if message + _AHEAD < messages:
            fetch(here + ends[message + _AHEAD])
        at = start
        start = end
        if framing == STREAM:
            if end - at == 18 and data[at] == _k:
                state[KEEPALIVE_END] = max(state[KEEPALIVE_END], _int64(data, at + 1))
                state[KEEPALIVE_TS] = max(state[KEEPALIVE_TS], _int64(data, at + 9))
                state[REPLY_ASKED] = max(state[REPLY_ASKED], nb.int64(data[at + 17]))
                continue
            if at + _XLOG_HEADER >= end or data[at] != _w:
                return row, txn, control, MALFORMED
            at += _XLOG_HEADER
        else:
            if end - at == 2 and _int16(data, at) == -1:
                continue  # the trailer
            if at + _COPY_HEADER >= end or _int16(data, at) != 1 or _int32(data, at + 2) != end - at - _COPY_HEADER:
                return row, txn, control, MALFORMED
            at += _COPY_HEADER
        if row + 2 > rows.shape[0] or txn >= transactions.shape[0] or control >= controls.shape[0]:
            return row, txn, control, NO_ROOM
        kind = nb.int64(data[at])
        at += 1
        if kind in (_I, _U, _D, _T):
            sub = nb.int64(0)
            if state[IN_TXN] == _SKIPPED:
                continue
            if state[IN_TXN] == _STREAMED:
                if at + 4 > end:
                    return row, txn, control, MALFORMED
                sub = _uint32(data, at)
                at += 4
            elif state[IN_TXN] == _NONE:
                return row, txn, control, MALFORMED
            if kind == _T:
                row, code = _truncate(data, at, end, sub, rows, row, state)
            else:
                row, code = _change(data, kind, at, end, sub, rows, row, state)
            if code != OK:
                return row, txn, control, code
            continue
        if kind == _C:
            if end - at != 25 or state[IN_TXN] not in (_ORDINARY, _SKIPPED):
                return row, txn, control, MALFORMED
            if state[IN_TXN] == _ORDINARY:
                transactions[txn, TXN_ROWS] = row
                transactions[txn, TXN_LSN] = _int64(data, at + 9)
                transactions[txn, TXN_TS] = _int64(data, at + 17)
                transactions[txn, TXN_XID] = state[XID]
                txn += 1
            state[IN_TXN] = _NONE
        elif kind in (_B, _b, _P, _S, _E) and _boundary(data, kind, at, end, state) != OK:
            return row, txn, control, MALFORMED
        if kind in (_C, _B, _S, _E):
            continue
        controls[control, CTL_START] = at - 1
        controls[control, CTL_END] = end
        controls[control, CTL_TXNS] = txn
        controls[control, CTL_ROWS] = row
        controls[control, CTL_TOP] = state[XID] if state[IN_TXN] == _STREAMED else 0
        control += 1
    return row, txn, control, OK


@kernel("Tuple((int64, int64))(uint8[::1], int64, int64, int64, int64[:,::1])")
def scan_copy(data, at, end, columns, rows):  # type: ignore[no-untyped-def]
    """Rows of a binary COPY as FIRST, END, IMAGE, OLD and COUNT: (rows, code). A field count of -1 ends them."""
    row = 0
    while at < end:
        if at + 2 > end:
            return row, MALFORMED
        found = _int16(data, at)
        at += 2
        if found == -1 and at == end:
            return row, OK
        if found != columns:
            return row, MALFORMED
        if row >= rows.shape[0]:
            return row, NO_ROOM
        rows[row, 0], rows[row, 2], rows[row, 3], rows[row, 4] = at, WHOLE, -1, columns
        for _ in range(columns):
            if at + 4 > end:
                return row, MALFORMED
            length = _int32(data, at)
            at += 4 + max(length, 0)
            if length < -1 or at > end:
                return row, MALFORMED
        rows[row, 1] = at
        row += 1
    return row, OK
