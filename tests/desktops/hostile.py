"""Code that must be refused: what a model could say to get out of the dialect, or to hang us."""

from __future__ import annotations

_CALLS = """
os.system('touch {0}')
import os; os.system('touch {0}')
import os as pyautogui; pyautogui.system('touch {0}')
import subprocess; subprocess.run(['touch', '{0}'])
import subprocess as time; time.sleep = 1
from os import system; system('touch {0}')
from os import *
from pyautogui import *
from pyautogui import os
from pyautogui import sys
from . import os
from time import monotonic
from time import sleep as s, perf_counter
import pyautogui.os
import importlib
import sys
import socket
import builtins
import ctypes
import pty; pty.spawn('sh')
__import__('os').system('touch {0}')
__import__('pyautogui')
eval('1')
eval("__import__('os').system('touch {0}')")
exec('import os')
exec(open('{0}', 'w').write('x'))
compile('1', 'x', 'eval')
open('{0}', 'w')
open('{0}', 'w').write('x')
open('/etc/passwd').read()
print(open('/etc/passwd').read())
print(globals())
print(locals())
print(vars())
print(dir())
globals()['pyautogui']
locals()['os']
getattr(pyautogui, 'os')
getattr(pyautogui, 'o' + 's').system('touch {0}')
setattr(pyautogui, 'x', 1)
delattr(pyautogui, 'x')
hasattr(pyautogui, 'os')
type(1)
type('X', (), {{}})
object()
super()
id(1)
input('>')
breakpoint()
help()
exit()
quit()
memoryview(b'x')
bytes(10**9)
bytearray(10**9)
list(range(10**9))
sum(range(10**9))
max([1])
map(print, [1])
sorted([2, 1])
(lambda: 1)()
(lambda: __import__('os'))().system('touch {0}')
f = lambda: 1
print(lambda: 1)
[x for x in (1, 2)]
{{x for x in (1, 2)}}
{{x: 1 for x in (1, 2)}}
(x for x in (1, 2))
print([c for c in ().__class__.__base__.__subclasses__()])
().__class__
().__class__.__bases__[0].__subclasses__()
''.__class__.__mro__
''.join(['a'])
'{{}}'.format(1)
'%s' % 'x'
'x'.__class__
(1).__class__
(1).real
print.__self__
print.__globals__
pyautogui.__builtins__
pyautogui.__dict__
pyautogui.__file__
pyautogui.__loader__.load_module('os')
pyautogui.os.system('touch {0}')
pyautogui.sys.exit()
pyautogui.subprocess.run('x')
pyautogui.screenshot('{0}')
pyautogui.screenshot().save('{0}')
pyautogui.locateOnScreen('x.png')
pyautogui.locateCenterOnScreen('x.png')
pyautogui.click('button.png')
pyautogui.moveTo('x', 'y')
pyautogui.alert('x')
pyautogui.prompt('x')
pyautogui.password('x')
pyautogui.confirm('x')
pyautogui.run("touch {0}")
pyautogui.run('c')
pyautogui.mouseInfo()
pyautogui.displayMousePosition()
pyautogui.printInfo()
pyautogui.getWindowsWithTitle('x')
pyautogui.getActiveWindow().close()
pyautogui.platformModule._moveTo(1, 1)
pyautogui._pyautogui_x11
pyautogui.time.sleep(1)
pyautogui.click.__globals__
pyautogui.click.__globals__['os'].system('touch {0}')
pyautogui.click().__class__
pyautogui.size().__class__
pyautogui.position().x.__class__
pyautogui = __import__('os')
pyautogui.click = print
pyautogui.os = 1
pyautogui.LOG_SCREENSHOTS = True
pyautogui['os']
pyautogui.size()[0:2]
pyautogui.size()[-1].__class__
time.time()
pyperclip.paste()
pyperclip.copy(1)
pyperclip.copy('x' * 20000 + 'x')
pyperclip.set_clipboard('xclip')
time.sleep.__self__
time.sleep.__class__
time.sleep(1, 2)
time.sleep('1')
time.sleep(-1)
time.sleep(1e9)
time.sleep(61)
time.sleep(float('nan'))
time.__loader__
time.sleep = print
pyautogui.sleep(100)
pyautogui.PAUSE = 'x'
pyautogui.PAUSE = -1
pyautogui.PAUSE = 1e308
pyautogui.write('x' * 10**9)
pyautogui.write('x' * 20001)
pyautogui.write('xy' * 20000)
pyautogui.write(['enter'] * 10)
pyautogui.write(1)
pyautogui.write(None)
pyautogui.write(b'x')
pyautogui.write(open('/etc/passwd').read())
pyautogui.write(f'{{open("/etc/passwd").read()}}')
pyautogui.write(f'{{().__class__}}')
pyautogui.write(f'{{1:>1000000000}}')
pyautogui.write(f'{{1!r}}')
pyautogui.write('a', interval=100)
pyautogui.write()
pyautogui.write('a', 0, None, True, 'x')
pyautogui.write('a', message='b')
pyautogui.write('a', **{{'interval': 1}})
pyautogui.press('rm')
pyautogui.press('ctrl+c')
pyautogui.press('')
pyautogui.press(1)
pyautogui.press('a', presses=10**8)
pyautogui.press('a', presses=1.5)
pyautogui.press(['a', 1])
pyautogui.keyDown()
pyautogui.keyDown('nokey')
pyautogui.hotkey()
pyautogui.hotkey('ctrl', 'nokey')
pyautogui.hotkey('ctrl', key='c')
pyautogui.click(5000, 5000)
pyautogui.click(-1, 0)
pyautogui.click(10**400, 1)
pyautogui.click(1e400, 1)
pyautogui.click(1, 2, 10**8)
pyautogui.click(True, False)
pyautogui.click([1, 2, 3])
pyautogui.click((1, 2), 3)
pyautogui.click({{'x': 1}})
pyautogui.click(x=os)
pyautogui.click(1, 2, colour='red')
pyautogui.click(button='fourth')
pyautogui.click(button=True)
pyautogui.click(1j, 1)
pyautogui.click(1, 2 ** 3)
pyautogui.click(1 << 30, 1)
pyautogui.click(1 if True else 2, 3)
pyautogui.click(1 and 2, 3)
pyautogui.click(not 1, 3)
pyautogui.click(~1, 3)
pyautogui.click(1 < 2, 3)
pyautogui.click(x := 1, 3)
pyautogui.click(*pyautogui)
pyautogui.click(print, 1)
pyautogui.moveTo(1 / 0, 1)
pyautogui.moveTo(1 % 0, 1)
pyautogui.moveTo(9 ** 9 ** 9, 1)
pyautogui.scroll()
pyautogui.scroll(10**8)
pyautogui.scroll('up')
pyautogui.dragTo(9999, 9999)
pyautogui.drag(10, 10, duration=1000)
pyautogui.hold('shift')
print(pyautogui)
print(pyautogui.click)
print(print)
print(1, file=2)
print(*range(10**9))
print(9 ** 99999999)
range(3)
x = pyautogui
x = print
x = {{}}
x = [1, 2]; x[0] = 3
x = [print]
x: int = 1
x = y = 1
x
x += 1
del time
assert False
raise SystemExit
return 1
yield 1
await x
global pyautogui
pyautogui.click() or os
for _ in range(10**9): pass
for _ in range(10001): pass
for _ in iter(int, 1): pass
for _ in range(1, 10, 0): pass
for _ in 'ab' * 10**9: pass
for _ in open('{0}'): pass
for pyautogui.click in range(3): pass
with open('{0}', 'w') as f: f.write('x')
with pyautogui.hold('shift') as x: pass
with pyautogui.hold(): pass
with pyautogui: pass
while True: pass
if True: pyautogui.click()
if __import__('os').system('touch {0}'): pass
try: pyautogui.click()
def f(): pass
class X: pass
async def f(): pass
match 1: pass
!touch {0}
rm -rf /
`touch {0}`
$(touch {0})
DONE()
"""

_BLOCKS = [
    "while True:\n    pass",
    "def click():\n    import os\n    os.system('touch {0}')\nclick()",
    "class A:\n    x = __import__('os').system('touch {0}')",
    "@print\ndef f():\n    pass",
    "@__import__('os').system\ndef f():\n    pass",
    "try:\n    pyautogui.click()\nexcept Exception:\n    pass",
    "if pyautogui.position():\n    pyautogui.click()",
    "for i in range(1000):\n    for j in range(1000):\n        pyautogui.press('a')",
    "for i in range(200):\n    for j in range(200):\n        pass",
    "for i in range(9):\n    pass\nelse:\n    pass",
    "match 1:\n    case 1:\n        pass",
    "with open('{0}', 'w') as f:\n    f.write('x')",
    "async def f():\n    await g()",
    "x = 'a'\nfor _ in range(60):\n    x = x + x",
    "x = 2\nfor _ in range(60):\n    x = x * x",
    "pyautogui.click()\nimport os\nos.system('touch {0}')",
    "pyautogui.write('innocent')\n__import__('os').system('touch {0}')",
    "import time\ntime.sleep(30)\ntime.sleep(31)",
    "pyautogui.PAUSE = 30\n" + "pyautogui.click()\n" * 4,
    "pyautogui.click()\x00",
    "(" * 5_000 + ")" * 5_000,
    "[" * 300 + "]" * 300,
    "x = " + "-" * 50_000 + "1",
    "x = " + "+".join(["1"] * 20_000),
    "pyautogui.write('" + "x" * 60_000 + "')",
    "\ud800",
    "pyautogui.click(",
    "'''",
    "    pyautogui.click()",
    "pyautogui.write('\\N{NO SUCH NAME}')",
]


def hostile(path: str) -> list[str]:
    """All of it; whoever executes some of it makes a file at `path`."""
    lines = [line.format(path) for line in _CALLS.splitlines() if line]
    return lines + [block.replace("{0}", path) for block in _BLOCKS]
